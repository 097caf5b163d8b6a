package groupengine

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// Op is what a node asks of the leader of a group's shard. The numbers are on the wire.
type Op byte

const (
	Create Op = 1 // make the record, unless there is one
	Delete Op = 2 // begin the removal
	Find   Op = 3 // the record as it is
	Await  Op = 4 // the record once it has another version than Seen
	Check  Op = 5 // the record as it is; and look whether something is to be done with it
)

// Question is a question to the leader of a group's shard. It may be asked twice.
type Question struct {
	Op     Op
	Key    string
	Record Record           // Create
	Seen   shardlog.Version // Await
}

// Entry is a record as it is.
type Entry struct {
	Exists  bool
	Record  Record
	Version shardlog.Version
}

// Gone is why the group of the key never gets its room, nil while it may.
func (e *Entry) Gone(key string) error {
	switch {
	case !e.Exists || e.Record.Removing:
		return ErrRemoved(key)
	case e.Record.Never != "":
		return fmt.Errorf("%w: %s: %s", raysys.ErrNoCapacity, Shown(key), e.Record.Never)
	}
	return nil
}

// Append appends the question to a frame.
func (q *Question) Append(dst []byte) []byte {
	dst = wire.AppendBytes(append(dst, byte(q.Op)), q.Key)
	switch q.Op {
	case Create:
		dst = q.Record.Append(dst)
	case Await:
		dst = wire.AppendStamp(dst, q.Seen)
	}
	return dst
}

// Read reads a question.
func (q *Question) Read(r *wire.Reader) (err error) {
	q.Op, q.Key = Op(r.Byte()), r.String()
	if r.Err() == nil && (q.Op < Create || q.Op > Check || !IsKey(q.Key)) {
		return fmt.Errorf("%w: question %d about the group %.64q", wire.ErrCorrupt, q.Op, q.Key)
	}
	switch q.Op {
	case Create:
		q.Record, err = Read(r)
	case Await:
		q.Seen = wire.ReadStamp[shardlog.Version](r)
	}
	if err == nil {
		err = r.Err()
	}
	return err
}

// Append appends the answer to a frame.
func (e *Entry) Append(dst []byte) []byte {
	if !e.Exists {
		return append(dst, 0)
	}
	return e.Record.Append(wire.AppendStamp(append(dst, 1), e.Version))
}

// ReadEntry reads an answer.
func ReadEntry(r *wire.Reader) (e Entry, err error) {
	if e.Exists = r.Byte() == 1; e.Exists {
		e.Version = wire.ReadStamp[shardlog.Version](r)
		e.Record, err = Read(r)
	}
	if err == nil {
		err = r.Err()
	}
	return e, err
}
