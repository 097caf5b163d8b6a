package registry

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// TaskKey names the record of a task: by its id, and by the run that it belongs to. Ids repeat with a fixed seed, runs
// do not.
type TaskKey struct {
	Run uint64 // the incarnation of the node whose driver the work comes from
	ID  raysys.TaskID
}

// taskPrefix begins the keys of the records of tasks.
const taskPrefix = "t/"

func (k TaskKey) key() string {
	b := append(make([]byte, 0, len(taskPrefix)+8+16), taskPrefix...)
	b = binary.BigEndian.AppendUint64(b, k.Run)
	if k.Named() {
		return string(b)
	}
	return string(wire.AppendID(b, k.ID))
}

// TaskRecord is what the cluster knows of a task to which other nodes than its submitter's refer.
type TaskRecord struct {
	Submitter core.NodeKey // has the future of the task
	Attempt   uint32       // counts the submitters: an outcome of an earlier one is refused
	Digest    uint64       // of what the task is: another one under the same key is refused
	Recipe    []byte       // how to run it; opaque here
	Outcome   []byte       // opaque here; empty while it has none
	Detached  bool         // stays when its submitter dies
	Name      string       // of a detached task; "" without
	// Of a task with a name (see NamedTask):
	Start     TaskKey // that it would have without one
	Namespace string  // of the function
	Function  string  // that a worker needs, as the placement knows it
	// States are the keys of the States that refer to the task: the record stays for them, and the leader hands it to a worker
	// after the death of its submitter, as one with a name. That needs Namespace and Function too.
	States []string
	Object TaskObject // the value, where that is an object; of a task with a name see Early
}

// Early counts the submitters in a row, of a task with a name, that have died soon after they had become it: before they said RanTask. The
// first does not count if it was a driver: one that ends at once is no fault of the task. The record has the last attempt that does not count in Object, which
// no task with a name has: its object has a name of its own.
func (t *TaskRecord) Early() int { return int(t.Attempt) - 1 - int(t.Object.Number) }

// TaskObject says where the object is that a task has computed. It is a hint: the node may be dead, or have freed the object.
type TaskObject struct {
	Owner  core.NodeKey // zero where no object is known
	Number uint64       // of the owner's future there, 0 where only the owner itself referred to that
	Once   bool         // the task must not run again for it
}

// ErrUnreadable is grains.ErrUnreadable: a newer node has written it.
var ErrUnreadable = graindir.ErrUnreadable

// taskRecordVersion is the first byte of a task's record. Version 4 has Object, version 3 States. Version 2 has what is of a task with a
// name; others are version 1.
const taskRecordVersion = 4

// taskDetached is a flag of a task's record.
const taskDetached = 1

// size is about how many bytes the record takes.
func (t *TaskRecord) size() int {
	n := 64 + len(t.Recipe) + len(t.Outcome) + len(t.Name) + len(t.Namespace) + len(t.Function)
	for _, s := range t.States {
		n += len(s) + 4
	}
	return n
}

func (t *TaskRecord) encode() []byte { return t.append(make([]byte, 0, t.size())) }

func (t *TaskRecord) append(dst []byte) []byte {
	flags := byte(0)
	if t.Detached {
		flags |= taskDetached
	}
	version := byte(1)
	switch {
	case t.Object != (TaskObject{}):
		version = taskRecordVersion
	case len(t.States) > 0:
		version = 3
	case t.Start != (TaskKey{}):
		version = 2
	}
	dst = wire.AppendNode(append(dst, version, flags), t.Submitter)
	dst = binary.LittleEndian.AppendUint64(wire.AppendUvarint(dst, uint64(t.Attempt)), t.Digest)
	dst = wire.AppendBytes(wire.AppendBytes(dst, t.Recipe), t.Outcome)
	if dst = wire.AppendBytes(dst, t.Name); version > 1 {
		dst = wire.AppendID(binary.LittleEndian.AppendUint64(dst, t.Start.Run), t.Start.ID)
		dst = wire.AppendBytes(wire.AppendBytes(dst, t.Namespace), t.Function)
	}
	if version > 2 {
		dst = wire.AppendUvarint(dst, uint64(len(t.States)))
		for _, s := range t.States {
			dst = wire.AppendBytes(dst, s)
		}
	}
	if version > 3 {
		dst = t.Object.append(dst)
	}
	return dst
}

func (o TaskObject) append(dst []byte) []byte {
	once := byte(0)
	if o.Once {
		once = 1
	}
	return append(wire.AppendUvarint(wire.AppendNode(dst, o.Owner), o.Number), once)
}

func readTaskObject(r *wire.Reader) TaskObject {
	return TaskObject{wire.ReadNode(r), r.Uvarint(), r.Byte() != 0}
}

// readTaskRecord reads a record as it is stored. Its Recipe and Outcome lie in b.
func readTaskRecord(b []byte) (t TaskRecord, err error) {
	r := wire.NewReader(b)
	v := r.Byte()
	if (v == 0 || v > taskRecordVersion) && r.Err() == nil {
		return t, fmt.Errorf("%w: the record of a task has version %d: upgrade this node", ErrUnreadable, v)
	}
	flags := r.Byte()
	t = TaskRecord{
		Submitter: wire.ReadNode(&r), Attempt: r.Uint32(), Digest: r.Uint64(), Recipe: r.Bytes(), Outcome: r.Bytes(), Name: r.String(),
		Detached: flags&taskDetached != 0,
	}
	if v > 1 {
		t.Start = TaskKey{Run: r.Uint64(), ID: r.ID()}
		t.Namespace, t.Function = r.String(), r.String()
	}
	if v > 2 {
		for range r.Count(1) {
			t.States = append(t.States, r.String())
		}
	}
	if v > 3 {
		t.Object = readTaskObject(&r)
	}
	if err = r.Err(); err == nil && (r.Len() > 0 || flags&^taskDetached != 0 || v == 2 && t.Start == (TaskKey{}) ||
		v == 3 && len(t.States) == 0 || v > 3 && t.Object == (TaskObject{})) {
		err = fmt.Errorf("%w: the record of a task has flags %x and %d bytes too many", wire.ErrCorrupt, flags, r.Len())
	}
	return t, err
}

// ownTaskRecord reads a record out of a frame, whose bytes do not stay.
func ownTaskRecord(b []byte) (TaskRecord, error) {
	t, err := readTaskRecord(b)
	t.Recipe, t.Outcome = append([]byte(nil), t.Recipe...), append([]byte(nil), t.Outcome...)
	return t, err
}

// TaskEntry answers a change: the record as it is now. Recipe and Outcome must not be changed. After SettleTask,
// ForgetTask and RemoveTask there is no Recipe: the asker does not need it. What a node asks that the cluster holds for dead is refused,
// whether there is a record or not.
type TaskEntry struct {
	Refused bool
	Exists  bool
	Record  TaskRecord
}
