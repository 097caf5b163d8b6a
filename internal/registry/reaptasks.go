package registry

import (
	"maps"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/shardlog"
)

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

// reapUnclaimed removes the records of tasks that are due.
func (l *leader) reapUnclaimed() {
	l.claiming.due = false
	r := l.reaper()
	r.scan(taskPrefix)
	r.flush()
	r.forgetClaiming()
}

// unclaimed reports whether the time is over in which the tasks of a dead submitter can be claimed. Else it has the
// records looked at again when it is.
func (l *leader) unclaimed(dead core.NodeKey) bool {
	c, now := &l.claiming, l.reg.cfg.Runner.Now()
	since, met := c.died[dead]
	if !met {
		if c.died == nil {
			c.died = map[core.NodeKey]int64{}
		}
		since, c.died[dead] = now, now
	}
	left := time.Duration(since-now) + unclaimedAfter
	if left > 0 && !c.due {
		c.due = true
		l.reg.cfg.Runner.After(left, func() {
			if l.shard.Err() == nil { // else this leader has ended, and the next one counts anew
				l.post(&reapUnclaimed{})
			}
		})
	}
	return left <= 0
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
