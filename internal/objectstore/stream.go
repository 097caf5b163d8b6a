package objectstore

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

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

// sourceOf returns a source of the bytes to write for an object, and their number. A value that is streamed is read
// twice: its length comes before the first byte is written, and with it the sums that the second reading must have too,
// unless they are known. It is called without the mutex.
func (s *Store) sourceOf(o *Object, pieces [][]byte, v Value, live int64, known bool) (size int64, first []uint32, src source, err error) {
	if stream, ok := v.(Streamer); ok && pieces == nil && live > s.config.Budget/streamShare {
		src := guarded(o.id, stream)
		if known {
			return o.version.Size, nil, src, nil
		}
		var all running
		if err := src(func(b []byte) error { all.add(b); return nil }); err != nil {
			return 0, nil, nil, err
		}
		return all.size, all.all(), src, nil
	}
	if pieces == nil {
		if pieces, err = encode(o.id, v); err != nil {
			return 0, nil, nil, err
		}
	}
	return total(pieces), nil, func(emit func([]byte) error) error {
		for _, p := range pieces {
			if err := emit(p); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

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
