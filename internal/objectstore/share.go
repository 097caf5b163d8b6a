package objectstore

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
)

// Shared tells another process of this host where an object's bytes are: descriptor FD of process PID. Device, Inode
// and Capacity tell whether that is still the same memory.
type Shared struct {
	PID      int
	FD       int
	Device   uint64
	Inode    uint64
	Capacity int64 // bytes of the segment, of which the object has the first
	// Sums are those of the object's chunks: the other process passes them on with the chunks.
	Sums []uint32
}

// ErrNotShareable says that an object's bytes cannot be mapped by another process: pull them.
var ErrNotShareable = errors.New("object cannot be shared with another process")

// doubt is an error about shared memory that differs from the announcement.
func doubt(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Mapping is the bytes of a whole object, contiguous, until Close. They must not be written to.
type Mapping struct {
	bytes atomic.Pointer[[]byte]
	back  lent
}

// Bytes returns the mapped bytes, nil after Close. They begin at an address that is a multiple of 8.
func (m *Mapping) Bytes() []byte {
	if b := m.bytes.Load(); b != nil {
		return *b
	}
	return nil
}

// Close ends the use of the bytes: touching them after it may crash the process. Close again does nothing.
func (m *Mapping) Close() error {
	m.bytes.Store(nil)
	m.back.once.Do(m.back.give)
	return nil
}

func newMapping(b []byte, give func()) *Mapping {
	m := &Mapping{back: lent{give: give}}
	m.bytes.Store(&b)
	return m
}

// maxIdle bounds the unused mappings of files that are kept: the next reader need not verify the whole file again.
// They take address space, and memory only as the kernel likes.
const maxIdle = 8

// fileMapping is a spill file in memory that the kernel manages.
type fileMapping struct {
	mem   []byte // from a page's beginning on
	body  []byte
	users int // guarded by the store's mutex
}

// errNotMappable says that a file has to be read instead.
var errNotMappable = errors.New("not mappable")

// Streamer is a Value that can also emit its bytes block by block, the same as its Pieces joined, without holding them
// all (codec.Plan.Stream). A block is lent for the time of the call. The store asks it of values so large that a second
// form of them in memory would burst the budget.
type Streamer interface {
	Stream(emit func([]byte) error) error
}

// source emits an object's bytes in order.
type source func(emit func([]byte) error) error

// streamShare is the part of the budget from which a value is streamed to its file: two spills at a time may then
// hold a quarter of it beyond the memory that is charged.
const streamShare = 8

// guarded is the source of a value. An error of the value itself is marked as such; one of emit is returned as it is.
func guarded(id raysys.TaskID, v Streamer) source {
	return func(emit func([]byte) error) (err error) {
		var theirs error
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: object %s: its encoding panicked: %v", raysys.ErrEncode, id, r)
			}
		}()
		err = v.Stream(func(b []byte) error {
			if theirs == nil {
				theirs = emit(b)
			}
			return theirs
		})
		switch {
		case theirs != nil:
			return theirs
		case err != nil:
			return fmt.Errorf("encode object %s: %w", id, errors.Join(raysys.ErrEncode, err))
		}
		return nil
	}
}
