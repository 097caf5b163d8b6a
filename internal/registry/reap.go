package registry

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/store"
)

// Messages about reaping.
type (
	reap        struct{}                // remove what incarnations have here that are not alive
	reapRefused struct{ keys []string } // what was proposed for these keys was refused
	reapAgain   struct{}                // the pause after that is over
)

// unreaped are the records that a reaping could not look at or change. Each is looked at again.
type unreaped struct {
	left map[string]bool
	due  bool // a reapAgain will come
}

// reaper is one reaping: it gathers what is to be removed, and proposes it in batches.
type reaper struct {
	l      *leader
	known  map[core.NodeKey]bool
	places store.Batch
	now    map[string]*Entry
	before map[string]store.Version
}

func (l *leader) reaper() *reaper {
	return &reaper{l: l, known: map[core.NodeKey]bool{}, now: map[string]*Entry{}, before: map[string]store.Version{}}
}

// reap takes the dead out of all records and off the counts, and forgets their questions. Nodes that joined a moment ago are alive,
// and an incarnation does not come back: to look twice does no harm.
func (l *leader) reap() {
	r := l.reaper()
	for key, waiting := range l.objects.watching {
		waiting = slices.DeleteFunc(waiting, func(q request) bool { return !r.alive(q.who().from) })
		if len(waiting) == 0 {
			delete(l.objects.watching, key)
		} else {
			l.objects.watching[key] = waiting
		}
	}
	for key := range l.objects.changing { // some of them are not there yet
		l.leave(key)
	}
	for key := range l.placing {
		l.leave(key)
	}
	for _, prefix := range []string{"g/", "o/", "n/"} {
		l.shard.Scan(prefix, func(key string, rec store.Record) bool {
			r.look(key, rec)
			return true
		})
	}
	r.flush()
	for k := range l.counts {
		if !r.alive(k) {
			delete(l.counts, k)
		}
	}
}

// reapRest looks again at those of the keys that were busy when a reaping came to them.
func (l *leader) reapRest(keys ...string) {
	if len(l.unreaped.left) == 0 {
		return
	}
	r := l.reaper()
	for _, key := range keys {
		if !l.unreaped.left[key] || l.busy(key) { // a busy one may have no record yet: it stays among those that are left
			continue
		}
		delete(l.unreaped.left, key)
		if rec, ok := l.shard.Get(key); ok {
			r.look(key, rec)
		}
	}
	r.flush()
}

// refusedForNow tells whether a removal may succeed later. A shard that is led from here no more is another's to clear up.
func refusedForNow(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, raysys.ErrOverloaded)
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
	_, changing := l.objects.changing[key]
	return placing || changing
}

// leave notes a record for later.
func (l *leader) leave(key string) {
	if l.unreaped.left == nil {
		l.unreaped.left = map[string]bool{}
	}
	l.unreaped.left[key] = true
}

// reapAgain looks at all that is left.
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

// look takes the dead out of one record.
func (r *reaper) look(key string, rec store.Record) {
	if r.l.busy(key) {
		r.l.leave(key)
		return
	}
	if strings.HasPrefix(key, "g/") {
		if p, err := readPlacement(rec); err == nil && !r.alive(p.NodeKey) {
			// On condition: a grain that was placed anew meanwhile stays.
			r.places.Checks = append(r.places.Checks, store.Check{Key: key, Version: rec.Version})
			r.places.Deletes = append(r.places.Deletes, key)
		}
	} else if o, err := recordOf(rec); err == nil && (o.reap(r.alive) || len(o.At) == 0 && key[0] == 'o' && !r.alive(o.Owner)) {
		// A name whose object no node has any more says what was lost, to those who ask for it.
		r.now[key] = &Entry{Exists: len(o.At) > 0 || key[0] == 'n', Record: o}
		r.before[key] = rec.Version
	}
	if len(r.places.Deletes) == maxChanges || len(r.now) == maxChanges {
		r.flush()
	}
}

// flush proposes what was gathered.
func (r *reaper) flush() {
	if keys := r.places.Deletes; len(keys) > 0 {
		r.l.propose(r.places, func(_ store.Result, err error) {
			if refusedForNow(err) {
				r.l.post(&reapRefused{keys})
			}
		})
		r.places = store.Batch{}
	}
	r.l.commitRecords(nil, r.now, r.before, nil)
	r.now, r.before = map[string]*Entry{}, map[string]store.Version{}
}
