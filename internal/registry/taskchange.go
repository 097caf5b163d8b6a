package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// taskKind is what happens to the record of a task. The numbers are on the wire.
type taskKind byte

const (
	taskEnter  taskKind = 1 // the asker submitted the task, or submits it again
	taskClaim  taskKind = 2 // the asker becomes the submitter in the place of a dead one
	taskSettle taskKind = 3 // the task has an outcome
	taskForget taskKind = 4 // the record is removed
	taskFind   taskKind = 5 // the record is read
	taskRemove taskKind = 6 // the record of a name is removed, whoever asks

	taskRetain    taskKind = 7 // the record stays for a State
	taskRetainEnd taskKind = 8 // that State does not refer to the task any more

	taskComputed taskKind = 9 // the task has computed an object

	taskClaimFrom taskKind = 10 // the asker becomes the submitter in the place of one that cannot make the task
)

// TaskChange is one change of the record of a task, by the node that asks for it. Each may be asked for twice: the
// second time comes to the same.
type TaskChange struct {
	kind taskKind
	key  TaskKey
	rec  *TaskRecord // never nil, and not changed; enter: what the asker has; settle: Attempt and Outcome; computed: Attempt and Object; claim from: Attempt; retain: Namespace, Function, one State
	bad  error       // why it cannot be made
}

// noRecord is what a change has that needs none.
var noRecord = &TaskRecord{}

// EnterTask says that this node has submitted the task rec; the leader sets its Submitter and Attempt. A record of that
// task with a living submitter stays, and the change is refused: the asker joins that submitter. In the place of a dead
// submitter comes the asker, with the next Attempt, its own Recipe, and the Outcome that there is. A record with another Digest is of
// another task: the change is refused, and the asker sees that from the Digest.
//
// A task with a name comes in the place of one that has settled. If rec has an Attempt, that one stays too.
func EnterTask(k TaskKey, rec TaskRecord) TaskChange {
	return TaskChange{kind: taskEnter, key: k, rec: &rec}
}

// ClaimTask makes this node the submitter of a task whose submitter is dead, with the next Attempt. While it lives the
// change is refused.
func ClaimTask(k TaskKey) TaskChange { return TaskChange{kind: taskClaim, key: k, rec: noRecord} }

// ClaimTaskFrom is ClaimTask for a task without a name whose submitter lives and has said that its program cannot make the task. It is
// refused unless attempt is still the current one, and there is no outcome.
func ClaimTaskFrom(k TaskKey, attempt uint32) TaskChange {
	return TaskChange{kind: taskClaimFrom, key: k, rec: &TaskRecord{Attempt: attempt}}
}

// SettleTask stores the outcome of a task, which is not empty. It is refused unless this node is the submitter, attempt
// is the current one, and there is no other outcome.
func SettleTask(k TaskKey, attempt uint32, outcome []byte) TaskChange {
	return TaskChange{kind: taskSettle, key: k, rec: &TaskRecord{Attempt: attempt, Outcome: outcome}}
}

// CancelTask ends a task with a name, if there is no outcome: outcome becomes that. Every node may ask. The answer names the submitter, which
// is still to be told, while it lives.
func CancelTask(k TaskKey, outcome []byte) TaskChange { return SettleTask(k, anyAttempt, outcome) }

// anyAttempt is in the place of a number of CancelTask: submitters count from 1.
const anyAttempt = 0

// RanTask says that this attempt of a task with a name has run for a while: see TaskRecord.Early. It is refused as ComputedTask is.
func RanTask(k TaskKey, attempt uint32) TaskChange {
	return ComputedTask(k, attempt, TaskObject{Number: uint64(attempt)})
}

// ComputedTask says where the object is that a task has computed. It is refused unless this node is the submitter, and attempt is the
// current one.
func ComputedTask(k TaskKey, attempt uint32, at TaskObject) TaskChange {
	return TaskChange{kind: taskComputed, key: k, rec: &TaskRecord{Attempt: attempt, Object: at}}
}

// ForgetTask removes the record of a task. It is refused unless this node is the submitter.
func ForgetTask(k TaskKey) TaskChange { return TaskChange{kind: taskForget, key: k, rec: noRecord} }

// RetainTask has the record of a task stay while a State refers to the task: namespace and function are what a worker needs
// to run it. It is refused unless this node is the submitter.
func RetainTask(k TaskKey, namespace, function, state string) TaskChange {
	return TaskChange{kind: taskRetain, key: k, rec: &TaskRecord{Namespace: namespace, Function: function, States: []string{state}}}
}

// RetainTaskEnd ends RetainTask for one State.
func RetainTaskEnd(k TaskKey, state string) TaskChange {
	return TaskChange{kind: taskRetainEnd, key: k, rec: &TaskRecord{States: []string{state}}}
}

// maxTaskStates bounds the States that refer to one task by its record.
const maxTaskStates = 64

// MaxTask bounds Recipe and Outcome of a task together: the rest of a value of the store is for what else the record
// has. maxTaskName bounds the name of a detached task.
const (
	MaxTask     = shardlog.MaxValueBytes - 2<<10
	maxTaskName = 512
)

// check says what no leader takes.
func (ch *TaskChange) check() error {
	if ch.kind == taskSettle && len(ch.rec.Outcome) == 0 {
		return errors.New("settle a task: the outcome is empty")
	}
	if named := ch.rec.Name != "" && ch.rec.Start != (TaskKey{}); ch.kind == taskEnter && ch.key.Named() != named {
		return errors.New("enter a task: a name needs a key of names, and a start")
	}
	if ch.kind == taskClaimFrom && ch.key.Named() {
		return errors.New("claim a task from its submitter: it has a name, and the leader chooses who has it")
	}
	if ch.kind == taskRetain || ch.kind == taskRetainEnd {
		if s := ch.rec.States; ch.key.Named() || len(s) != 1 || !IsStateKey(s[0]) {
			return fmt.Errorf("%w: retain a task for a State: %.64q is no key of one, or the task has a name", raysys.ErrInvalidRef, s)
		}
	}
	if n := len(ch.rec.Name); n > maxTaskName {
		return fmt.Errorf("%w: the name of a detached task has %d bytes, at most %d may be", raysys.ErrTooLarge, n, maxTaskName)
	}
	return checkTaskSize(ch.rec, ch.rec.Outcome)
}

func checkTaskSize(t *TaskRecord, outcome []byte) error {
	n := len(t.Recipe) + len(t.Namespace) + len(t.Function)
	for _, s := range t.States {
		n += len(s) + 4
	}
	if n+len(outcome) > MaxTask {
		return fmt.Errorf("%w: the recipe of a task has %d bytes and its outcome %d, at most %d together may be: keep large values as objects",
			raysys.ErrTooLarge, n, len(outcome), MaxTask)
	}
	return nil
}

func (ch TaskChange) shardKey() string { return ch.key.key() }

// size is about how many bytes the change takes in a request.
func (ch TaskChange) size() int {
	return 32 + ch.rec.size()
}

func (ch *TaskChange) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, byte(ch.kind)), ch.key.Run)
	dst = wire.AppendID(dst, ch.key.ID)
	switch ch.kind {
	case taskEnter, taskRetain, taskRetainEnd:
		dst = wire.AppendNested(dst, ch.rec.append)
	case taskSettle:
		dst = wire.AppendBytes(wire.AppendUvarint(dst, uint64(ch.rec.Attempt)), ch.rec.Outcome)
	case taskClaimFrom:
		dst = wire.AppendUvarint(dst, uint64(ch.rec.Attempt))
	case taskComputed:
		dst = ch.rec.Object.append(wire.AppendUvarint(dst, uint64(ch.rec.Attempt)))
	}
	return dst
}

// read reads a change. A record that a newer node made, or one that is too large, fails this change alone.
func (ch *TaskChange) read(r *wire.Reader) (err error) {
	ch.kind = taskKind(r.Byte())
	ch.key, ch.rec = TaskKey{Run: r.Uint64(), ID: r.ID()}, noRecord
	switch ch.kind {
	case taskEnter, taskRetain, taskRetainEnd:
		rec, bad := ownTaskRecord(r.Bytes())
		if err = bad; errors.Is(err, wire.ErrCorrupt) {
			return err
		}
		ch.rec = &rec
	case taskSettle:
		ch.rec = &TaskRecord{Attempt: r.Uint32(), Outcome: bytes.Clone(r.Bytes())}
	case taskClaimFrom:
		ch.rec = &TaskRecord{Attempt: r.Uint32()}
	case taskComputed:
		ch.rec = &TaskRecord{Attempt: r.Uint32(), Object: readTaskObject(r)}
	case taskClaim, taskForget, taskFind, taskRemove:
	default:
		return fmt.Errorf("%w: change %d of a task", wire.ErrCorrupt, ch.kind)
	}
	if ch.bad = err; err == nil {
		ch.bad = ch.check()
	}
	return r.Err()
}

// apply makes the change to e for the node by. changed is false when e stays as it is: because the change is refused,
// or was made before. After an error e stays too.
func (ch *TaskChange) apply(e *TaskEntry, by core.NodeKey, alive func(core.NodeKey) bool) (changed bool, err error) {
	if ch.bad != nil {
		return false, ch.bad
	}
	if ch.key.Named() {
		ch.replaced(e)
	}
	t := &e.Record
	mine := e.Exists && t.Submitter == by
	switch {
	case !alive(by): // a node that died after it asked submits nothing
		e.Refused = true
	case ch.kind == taskFind:
	case ch.kind == taskRemove:
		changed = e.Exists
		*e = TaskEntry{}
		return changed, nil
	case !e.Exists && ch.kind == taskEnter:
		*e = TaskEntry{Exists: true, Record: *ch.rec}
		t.Submitter, t.Attempt = by, 1
		return true, nil
	case !e.Exists: // what is forgotten already may be forgotten again
		e.Refused = ch.kind == taskSettle || ch.kind == taskRetain || ch.kind == taskComputed
	case ch.key.Named() && (ch.kind == taskEnter && !ch.entered(t, mine) || ch.kind == taskClaim && len(t.Outcome) > 0):
		e.Refused = true
	case ch.kind == taskEnter && t.Digest != ch.rec.Digest:
		e.Refused = true
	case ch.kind == taskEnter, ch.kind == taskClaim, ch.kind == taskClaimFrom:
		if mine {
			return false, nil
		}
		given := ch.kind == taskClaimFrom && t.Attempt == ch.rec.Attempt && len(t.Outcome) == 0
		if alive(t.Submitter) && !given {
			e.Refused = true
			return false, nil
		}
		t.Submitter = by
		t.Attempt++
		ch.renew(t)
		return true, nil
	case !mine && !ch.cancels():
		e.Refused = true
	case ch.kind == taskForget:
		*e = TaskEntry{}
		return true, nil
	case ch.kind == taskRetain:
		return ch.retain(t)
	case ch.kind == taskRetainEnd:
		i := slices.Index(t.States, ch.rec.States[0])
		if i < 0 {
			return false, nil
		}
		t.States = slices.Delete(slices.Clone(t.States), i, i+1)
		return true, nil
	case t.Attempt != ch.rec.Attempt && !ch.cancels():
		e.Refused = true
	case ch.kind == taskComputed:
		changed = t.Object != ch.rec.Object
		t.Object = ch.rec.Object
		return changed, nil
	case len(t.Outcome) > 0:
		e.Refused = !bytes.Equal(t.Outcome, ch.rec.Outcome)
	default:
		if ch.key.Named() { // it does not run again
			t.Recipe = nil
		}
		if err := checkTaskSize(t, ch.rec.Outcome); err != nil {
			return false, err
		}
		t.Outcome = ch.rec.Outcome
		return true, nil
	}
	return false, nil
}

// cancels reports whether it is a CancelTask.
func (ch *TaskChange) cancels() bool {
	return ch.kind == taskSettle && ch.rec.Attempt == anyAttempt && ch.key.Named()
}

// renew gives a task whose submitter has died the recipe of the node that has entered it now: what it refers to is of that node.
func (ch *TaskChange) renew(t *TaskRecord) {
	after := *t
	after.Recipe = ch.rec.Recipe
	if ch.kind == taskEnter && checkTaskSize(&after, t.Outcome) == nil {
		*t = after
	}
}

// retain enters a State in the record of a task.
func (ch *TaskChange) retain(t *TaskRecord) (changed bool, err error) {
	state := ch.rec.States[0]
	if slices.Contains(t.States, state) {
		return false, nil
	}
	after := *t
	after.States = append(slices.Clone(t.States), state)
	after.Namespace, after.Function = ch.rec.Namespace, ch.rec.Function
	if n := len(after.States); n > maxTaskStates {
		return false, fmt.Errorf("%w: %d States refer to one task, at most %d may by its record", raysys.ErrTooLarge, n, maxTaskStates)
	}
	if err := checkTaskSize(&after, t.Outcome); err != nil {
		return false, err
	}
	*t = after
	return true, nil
}

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
		t := &e.Record
		other = ch.rec.Attempt == 0 && len(t.Outcome) > 0 && t.Start != ch.rec.Start && t.Name == ch.rec.Name
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

// taskKeyOf is the key of the record of t, which lies under key.
func taskKeyOf(key string, t *TaskRecord) TaskKey {
	k := TaskKey{Run: binary.BigEndian.Uint64([]byte(key[len(taskPrefix):])), ID: t.Start.ID}
	if !k.Named() {
		r := wire.NewReader([]byte(key[len(taskPrefix)+8:]))
		k.ID = r.ID()
	}
	return k
}
