package registry

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/shardlog"
)

// Messages about reaping.
type (
	reap        struct{}                // remove what belongs to dead incarnations
	reapRefused struct{ keys []string } // the batch with the removals of these keys was refused
	reapAgain   struct{}                // the pause after a refusal is over
)

// unreaped are the records that a reaping could not look at or change. Each is looked at again.
type unreaped struct {
	left map[string]bool
	due  bool // a reapAgain will come
}

// reaper is one reaping: it gathers removals, and proposes them in batches.
type reaper struct {
	l      *leader
	known  map[core.NodeKey]bool
	places shardlog.Batch
	now    map[string]*Entry
	before map[string]shardlog.Version
}

func (l *leader) reaper() *reaper {
	return &reaper{l: l, known: map[core.NodeKey]bool{}, now: map[string]*Entry{}, before: map[string]shardlog.Version{}}
}

// reap removes dead nodes from all records and counts, and forgets their requests. To reap twice does no harm: an
// incarnation that is dead stays dead.
func (l *leader) reap() {
	r := l.reaper()
	for key, waiting := range l.records.watching {
		waiting = slices.DeleteFunc(waiting, func(q request) bool { return !r.alive(q.who().from) })
		if len(waiting) == 0 {
			delete(l.records.watching, key)
		} else {
			l.records.watching[key] = waiting
		}
	}
	for key := range l.records.changing { // the table may not have the record of such a key yet
		l.leave(key)
	}
	for key := range l.placing {
		l.leave(key)
	}
	for _, prefix := range []string{"g/", "o/", "n/", replyPrefix, taskPrefix, groupengine.KeyPrefix} {
		r.scan(prefix)
	}
	r.flush()
	r.forgetClaiming()
	l.due.Reap(r.alive)
	findSleepers(l)
	for k := range l.counts {
		if !r.alive(k) {
			delete(l.counts, k)
		}
	}
}

// reapRest looks again at those of the keys that a reaping found busy.
func (l *leader) reapRest(keys ...string) {
	if len(l.unreaped.left) == 0 {
		return
	}
	r := l.reaper()
	for _, key := range keys {
		if !l.unreaped.left[key] || l.busy(key) { // a busy key may have no record yet: it stays in left
			continue
		}
		delete(l.unreaped.left, key)
		if rec, ok := l.shard.Get(key); ok {
			r.reapRecord(key, rec)
		}
	}
	r.flush()
}

// refusedForNow reports whether a removal that failed with err may succeed later. After other errors this node does not
// lead the shard any more, and the next leader reaps it.
func refusedForNow(err error) bool {
	return errors.Is(err, shardlog.ErrConflict) || errors.Is(err, raysys.ErrOverloaded)
}

// postpone has the keys looked at again after a pause.
func (l *leader) postpone(keys []string) {
	for _, key := range keys {
		l.leave(key)
	}
	if l.unreaped.due {
		return
	}
	l.unreaped.due = true
	l.reg.cfg.Runner.Later(func() { l.post(&reapAgain{}) })
}

// busy reports whether a change of the key is being committed. Its end calls reapRest.
func (l *leader) busy(key string) bool {
	_, placing := l.placing[key]
	_, changing := l.records.changing[key]
	return placing || changing
}

// leave notes a record for later.
func (l *leader) leave(key string) {
	if l.unreaped.left == nil {
		l.unreaped.left = map[string]bool{}
	}
	l.unreaped.left[key] = true
}

// reapAgain looks at all keys in left.
func (l *leader) reapAgain() {
	l.unreaped.due = false
	l.reapRest(slices.Collect(maps.Keys(l.unreaped.left))...)
}

// alive asks once for each node: a reaping sees one cluster.
func (r *reaper) alive(k core.NodeKey) bool {
	alive, known := r.known[k]
	if !known {
		alive = r.l.alive(k)
		r.known[k] = alive
	}
	return alive
}

// scan looks at all records of a kind.
func (r *reaper) scan(prefix string) {
	r.l.shard.Scan(prefix, func(key string, rec shardlog.Record) bool {
		r.reapRecord(key, rec)
		return true
	})
}

// reapRecord removes dead nodes from one record.
func (r *reaper) reapRecord(key string, rec shardlog.Record) {
	if r.l.busy(key) {
		r.l.leave(key)
		return
	}
	if strings.HasPrefix(key, "g/") {
		if p, err := readPlacement(rec); err == nil && !r.alive(p.NodeKey) {
			// On condition of the version: a grain that was placed anew since stays.
			r.places.Checks = append(r.places.Checks, shardlog.Check{Key: key, Version: rec.Version})
			r.places.Deletes = append(r.places.Deletes, key)
		}
	} else if strings.HasPrefix(key, groupengine.KeyPrefix) {
		r.l.drive(key)
	} else if strings.HasPrefix(key, taskPrefix) {
		r.lookTask(key, rec)
	} else if strings.HasPrefix(key, replyPrefix) {
		if deadReply(key, rec, r.alive) {
			r.places.Deletes = append(r.places.Deletes, key)
		}
	} else if o, err := recordOf(rec); err == nil && (o.reap(r.alive) || len(o.At) == 0 && key[0] == 'o' && !r.alive(o.Owner)) {
		// The record of a name stays when no node has the object any more: a lookup says then what was lost.
		r.now[key] = &Entry{Exists: len(o.At) > 0 || key[0] == 'n', Record: o}
		r.before[key] = rec.Version
	}
	if len(r.places.Deletes) == maxChanges || len(r.now) == maxChanges {
		r.flush()
	}
}

// flush proposes the removals that were gathered.
func (r *reaper) flush() {
	if keys := r.places.Deletes; len(keys) > 0 {
		r.l.propose(r.places, func(_ shardlog.Result, err error) {
			if refusedForNow(err) {
				r.l.post(&reapRefused{keys})
			}
		})
		r.places = shardlog.Batch{}
	}
	if len(r.now) > 0 {
		b, _ := objectBatch(r.now, r.before)
		r.l.commitRecords(nil, []recordBatch{b}, nil)
	}
	r.now, r.before = map[string]*Entry{}, map[string]shardlog.Version{}
}

// unclaimedAfter is how long the record of a task stays after its submitter's death. By then the nodes that wait for
// the task have claimed it.
const unclaimedAfter = 30 * time.Second

// reapUnclaimed is the message that the time of a dead submitter may be over.
type reapUnclaimed struct{}

// claiming are the dead submitters of tasks that may be claimed. Their time begins anew with each leader.
type claiming struct {
	died map[core.NodeKey]int64 // when this leader met the death, by the node's clock
	due  bool                   // a reapUnclaimed will come
}

// lookTask removes the record of a task that nobody has claimed, and has a worker claim one that has a name, or to which a
// State refers: that one knows by the State's record how long.
func (r *reaper) lookTask(key string, rec shardlog.Record) {
	t, err := readTaskRecord(rec.Value)
	if err == nil && (t.Start != (TaskKey{}) || len(t.States) > 0) {
		if (len(t.Outcome) == 0 || len(t.States) > 0) && !r.alive(t.Submitter) {
			r.l.handOver(key, &t)
		}
		return
	}
	if err == nil && !t.Detached && !r.alive(t.Submitter) && r.l.unclaimed(t.Submitter) {
		// On condition of the version: a task that was claimed since stays.
		r.places.Checks = append(r.places.Checks, shardlog.Check{Key: key, Version: rec.Version})
		r.places.Deletes = append(r.places.Deletes, key)
	}
}

// forgetClaiming forgets the dead submitters that no record names any more: those that the reaping did not meet.
func (r *reaper) forgetClaiming() {
	maps.DeleteFunc(r.l.claiming.died, func(k core.NodeKey, _ int64) bool { _, met := r.known[k]; return !met })
}
