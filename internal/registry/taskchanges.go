package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// taskChanges changes records of tasks that lie in one shard. Each change may be refused, or fail, without the others.
type taskChanges struct{ list []TaskChange }

// taskAnswer answers a change.
type taskAnswer struct {
	TaskEntry
	again bool  // the change was made or refused, but the answer had no room for it: it is asked for again
	err   error // the change cannot be made
}

func (*taskChanges) code() code { return codeTasks }

func (o *taskChanges) shardKey() string { return o.list[0].shardKey() }

func (o *taskChanges) append(dst []byte) []byte {
	size := 0
	for i := range o.list {
		size += o.list[i].size()
	}
	dst = wire.AppendUvarint(slices.Grow(dst, size), uint64(len(o.list)))
	for i := range o.list {
		dst = o.list[i].append(dst)
	}
	return dst
}

func (o *taskChanges) read(r *wire.Reader) error {
	n := r.Count(1 + 8 + 16)
	if n == 0 || n > maxChanges {
		return fmt.Errorf("%w: %d changes of tasks", wire.ErrCorrupt, n)
	}
	o.list = make([]TaskChange, n)
	for i := range o.list {
		if err := o.list[i].read(r); err != nil {
			return err
		}
	}
	return nil
}

// Bits of an answer to a change. What the question has is left out.
const (
	taskRefused = 1 << iota
	taskExists
	taskFailed
	taskAgain
	taskSameRecipe
	taskSameOutcome
)

// maxTaskAnswers bounds the answers to one request, together with one more record: a frame has 1 MiB.
const maxTaskAnswers = 512 << 10

func (o *taskChanges) appendAnswer(dst []byte, answers []taskAnswer) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(answers)))
	start := len(dst)
	for i := range answers {
		a := answers[i]
		a.again = a.again || len(dst)-start > maxTaskAnswers
		dst = a.append(dst, &o.list[i])
	}
	return dst
}

func (a *taskAnswer) append(dst []byte, ch *TaskChange) []byte {
	switch {
	case a.again:
		return append(dst, taskAgain)
	case a.err != nil:
		return wire.AppendError(append(dst, taskFailed), a.err)
	}
	bits := byte(0)
	if a.Refused {
		bits |= taskRefused
	}
	if !a.Exists {
		return append(dst, bits)
	}
	bits |= taskExists
	t := a.Record
	if len(t.Recipe) > 0 && bytes.Equal(t.Recipe, ch.rec.Recipe) {
		t.Recipe, bits = nil, bits|taskSameRecipe
	}
	if len(t.Outcome) > 0 && bytes.Equal(t.Outcome, ch.rec.Outcome) {
		t.Outcome, bits = nil, bits|taskSameOutcome
	}
	return wire.AppendNested(append(dst, bits), t.append)
}

func (o *taskChanges) readAnswer(r *wire.Reader) ([]taskAnswer, error) {
	if n := r.Count(1); n != len(o.list) {
		return nil, fmt.Errorf("%w: %d answers to %d changes of tasks", wire.ErrCorrupt, n, len(o.list))
	}
	answers := make([]taskAnswer, len(o.list))
	for i := range answers {
		if err := answers[i].read(r, &o.list[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// read reads the answer to ch. A record that a newer node made fails this change alone.
func (a *taskAnswer) read(r *wire.Reader, ch *TaskChange) error {
	bits := r.Byte()
	a.Refused, a.Exists, a.again = bits&taskRefused != 0, bits&taskExists != 0, bits&taskAgain != 0
	if bits&taskFailed != 0 {
		if a.err = wire.ReadError(r); errors.Is(a.err, wire.ErrCorrupt) {
			return a.err
		}
		return nil
	}
	if !a.Exists {
		return nil
	}
	if a.Record, a.err = ownTaskRecord(r.Bytes()); errors.Is(a.err, wire.ErrCorrupt) {
		return a.err
	}
	if bits&taskSameRecipe != 0 {
		a.Record.Recipe = ch.rec.Recipe
	}
	if bits&taskSameOutcome != 0 {
		a.Record.Outcome = ch.rec.Outcome
	}
	return nil
}

// serve makes the changes, in batches of the shard that take the records in their order. What nothing changes is
// answered behind a batch too, so that this node led the shard after it read.
func (o *taskChanges) serve(l *leader, q *asked[[]taskAnswer]) {
	keys := make([]string, len(o.list))
	for i := range keys {
		keys[i] = o.list[i].shardKey()
	}
	if !l.free(q, keys) {
		return
	}
	now := make(map[string]*taskNow, len(o.list))
	answers := make([]taskAnswer, len(o.list))
	var changed []*taskNow // in their order
	for i := range o.list {
		ch, a := &o.list[i], &answers[i]
		n := now[keys[i]]
		if n == nil {
			n = readTaskNow(l.shard, keys[i])
			now[n.key] = n
		}
		if a.err = n.err; a.err != nil {
			continue
		}
		a.TaskEntry = n.TaskEntry
		made, err := ch.apply(&a.TaskEntry, q.from, l.alive)
		if a.err = err; err != nil {
			a.TaskEntry = TaskEntry{}
			continue
		}
		if made {
			n.TaskEntry = a.TaskEntry
			if !n.changed {
				n.changed, changed = true, append(changed, n)
			}
		}
		if ch.answersWithoutRecipe() {
			a.Record.Recipe = nil
		}
	}
	l.commitRecords(q, taskBatches(changed), func() { q.answer(answers, nil) })
}

// taskNow is the record of a task, with the changes of a request that were made to it.
type taskNow struct {
	TaskEntry
	key     string
	before  shardlog.Version
	changed bool
	err     error // it cannot be read
}

func readTaskNow(s *shardlog.Shard, key string) *taskNow {
	n := &taskNow{key: key}
	if rec, ok := s.Get(key); ok {
		n.before, n.Exists = rec.Version, true
		n.Record, n.err = readTaskRecord(rec.Value)
		if errors.Is(n.err, wire.ErrCorrupt) { // which the asker would take for a damaged answer
			n.err = fmt.Errorf("%w: the record of a task is damaged: %v", graindir.ErrUnreadable, n.err)
		}
	}
	return n
}

// taskBatches puts records into as few batches as take them; there is one at least.
func taskBatches(records []*taskNow) []recordBatch {
	batches := []recordBatch{{}}
	size := 0
	for _, n := range records {
		var value []byte
		if n.Exists {
			value = n.Record.encode()
		}
		took := 64 + len(n.key) + len(value) // 64 is more than what the shard adds
		if size += took; size > shardlog.MaxBatchBytes {
			batches, size = append(batches, recordBatch{}), took
		}
		b := &batches[len(batches)-1]
		b.keys = append(b.keys, n.key)
		b.Checks = append(b.Checks, shardlog.Check{Key: n.key, Version: n.before})
		if n.Exists {
			b.Puts = append(b.Puts, shardlog.Put{Key: n.key, Value: value})
		} else {
			b.Deletes = append(b.Deletes, n.key)
		}
	}
	return batches
}

// Tasks is this node's side of the records of tasks: it sends the changes of one shard together.
type Tasks struct {
	changes gatherer[TaskChange, taskAnswer]
}

// NewTasks returns the records of tasks for the node with registry r.
func NewTasks(r *Registry) *Tasks {
	request := func(list []TaskChange) operation[[]taskAnswer] { return &taskChanges{list} }
	return &Tasks{gatherer[TaskChange, taskAnswer]{reg: r, request: request}}
}

// Change makes one change, together with others. done is called on any goroutine and must not block. Two changes of a
// task may be made in either order, unless the second is asked for when the first is answered.
//
// Its errors: raysys.ErrTooLarge; graindir.ErrUnreadable where a newer node has written the record; those of any
// request to a leader.
func (t *Tasks) Change(ch TaskChange, done func(TaskEntry, error)) {
	if err := ch.check(); err != nil {
		done(TaskEntry{}, err)
		return
	}
	t.add(ch, done)
}

func (t *Tasks) add(ch TaskChange, done func(TaskEntry, error)) {
	t.changes.add(ch, func(a taskAnswer, err error) {
		switch {
		case err != nil:
			done(TaskEntry{}, err)
		case a.err != nil:
			done(TaskEntry{}, a.err)
		case a.again:
			t.add(ch, done)
		case a.Refused && a.Exists && t.outlived(&ch, &a.Record):
			t.changes.reg.cfg.Runner.Later(func() { t.add(ch, done) })
		default:
			done(a.TaskEntry, nil)
		}
	})
}

// outlived reports whether ch was refused for the sake of a submitter which this node knows to be dead: the leader has
// not heard of it yet, and will.
func (t *Tasks) outlived(ch *TaskChange, rec *TaskRecord) bool {
	if ch.key.Named() || ch.kind != taskClaim && (ch.kind != taskEnter || ch.rec.Digest != rec.Digest) {
		return false
	}
	cfg := &t.changes.reg.cfg
	return !cfg.Members.Alive(rec.Submitter) && cfg.Runner.Err() == nil
}
