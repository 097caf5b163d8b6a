package registry

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// A detached task with a name has one record for its name, so that who has the name and what becomes of the task are one
// conditional commit. Its key has the name in the place of the run. The id in the key says which of the tasks is meant
// that had the name, one after the other; it is no part of the record's key.
//
//	Enter ──▶ runs ──── Settle ──▶ has its outcome ──── Enter of another start ──▶ runs
//	           │ ▲ the same content: refused, the asker joins it; other content: refused
//	           ▼ │
//	   the submitter is dead: the leader hands it to a worker, which claims it
//
// Cancel, which any node asks for, is a Settle for whichever attempt there is. Remove, which any node asks for too, leaves none.

// namedRun is set in the Run of the key of a name. Incarnations are counted, and never have it.
const namedRun = 1 << 63

// NamedTask is the key of whichever task has the name.
func NamedTask(namespace, name string) TaskKey {
	h := fnv.New64a()
	_, _ = h.Write([]byte(NameKey(namespace, name)))
	return TaskKey{Run: h.Sum64() | namedRun}
}

// Named reports whether it is the key of a name.
func (k TaskKey) Named() bool { return k.Run&namedRun != 0 }

// FindTask reads the record of a name: that of the task with the key's id, if it has one. Every node may ask.
func FindTask(k TaskKey) TaskChange { return TaskChange{kind: taskFind, key: k, rec: noRecord} }

// RemoveTask frees a name. Every node may ask.
func RemoveTask(k TaskKey) TaskChange { return TaskChange{kind: taskRemove, key: k, rec: noRecord} }

// answersWithoutRecipe reports whether the asker has the recipe, or needs none.
func (ch *TaskChange) answersWithoutRecipe() bool {
	switch ch.kind {
	case taskSettle, taskForget, taskRemove, taskRetain, taskRetainEnd, taskComputed:
		return true
	}
	return false
}

// replaced has the change of a name see no record when it is about another task than the one that has the name, or enters
// one after that.
func (ch *TaskChange) replaced(e *TaskEntry) {
	if !e.Exists {
		return
	}
	other := ch.key.ID != (raysys.TaskID{}) && ch.key.ID != e.Record.Start.ID
	if ch.kind == taskEnter {
		other = len(e.Record.Outcome) > 0 && e.Record.Start != ch.rec.Start && e.Record.Name == ch.rec.Name
	}
	if other {
		*e = TaskEntry{}
	}
}

// entered reports whether the asker has entered the task t before, and runs it.
func (ch *TaskChange) entered(t *TaskRecord, mine bool) bool {
	return mine && t.Attempt == 1 && t.Start == ch.rec.Start && t.Name == ch.rec.Name
}

// handOverEvery is the time after which the leader asks another worker.
const handOverEvery = time.Second

// handOverAgain is the message that this time is over.
type handOverAgain struct{}

// handOver asks a worker to claim a task that has a name, or to which a State refers, and whose submitter is dead. The leader asks again until one has: the
// worker may die too, and there may be none yet that has the function.
func (l *leader) handOver(key string, t *TaskRecord) {
	if l.reg.cfg.HandOver == nil {
		return
	}
	if l.handing == nil {
		l.handing = map[string]bool{}
		l.reg.cfg.Runner.After(handOverEvery, func() {
			if l.shard.Err() == nil { // else this leader has ended, and the next one looks at all
				l.post(&handOverAgain{})
			}
		})
	}
	l.handing[key] = true
	l.draws++
	d, err := placement.Place(l.view(), placement.Request{
		Kind:     placement.Grain, // a worker
		Function: t.Function, Namespace: t.Namespace, Seed: l.draws ^ l.shard.Epoch()<<32,
	})
	if err != nil {
		return
	}
	l.reg.cfg.HandOver(core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}, taskKeyOf(key, t))
}

// taskKeyOf is the key of the record of t, which lies under key.
func taskKeyOf(key string, t *TaskRecord) TaskKey {
	k := TaskKey{Run: binary.BigEndian.Uint64([]byte(key[len(taskPrefix):])), ID: t.Start.ID}
	if !k.Named() {
		r := wire.NewReader([]byte(key[len(taskPrefix)+8:]))
		k.ID = r.ID()
	}
	return k
}

// handOverAgain looks again at the tasks that were handed over.
func (l *leader) handOverAgain() {
	keys := l.handing
	l.handing = nil
	r := l.reaper()
	for _, key := range slices.Sorted(maps.Keys(keys)) { // in an order that a seed repeats
		if rec, ok := l.shard.Get(key); ok {
			r.look(key, rec)
		}
	}
	r.flush()
}
