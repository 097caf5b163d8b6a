package stream

import (
	"context"
	"errors"
	"iter"
	"unsafe"

	"github.com/raysys/raysys/stream/internal/bus"
)

// ReadOption changes a Read.
type ReadOption func(*reading)

type reading struct {
	from  uint64
	toEnd bool
}

// From begins with the event of that number, or the next one that is there. Without it a Read begins with the oldest.
func From(seq uint64) ReadOption { return func(r *reading) { r.from = seq } }

// ToEnd ends the Read with the last event that is stored when it begins. Without it the Read goes on with events that come.
func ToEnd() ReadOption { return func(r *reading) { r.toEnd = true } }

// Read iterates over the events of a key in their order, and then over those that come, until the loop or ctx ends. It keeps nothing: who wants to
// go on later keeps the number of the last event. It waits while the server is away.
//
// An event that is no T has an error that matches ErrUnreadable, and its Data; the loop goes on after it. After any other error it ends.
func (s Stream[T]) Read(ctx context.Context, key string, opts ...ReadOption) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		err := s.d.read(ctx, key, opts, func(m *bus.Message) bool {
			e := Event[T]{Key: m.Key, Seq: m.Seq, Time: m.Time, Reason: m.Reason, Data: m.Data}
			err := s.d.decode(m.Data, unsafe.Pointer(&e.Value))
			return yield(e, err)
		})
		if err != nil {
			yield(Event[T]{Key: key}, err)
		}
	}
}

// read returns nil when take has returned false, and where there is nothing more to read.
func (d *definition) read(ctx context.Context, key string, opts []ReadOption, take func(*bus.Message) bool) error {
	if err := d.checkKey(key); err != nil {
		return err
	}
	var r reading
	for _, o := range opts {
		o(&r)
	}
	n, err := nodeOf(ctx)
	if err != nil {
		return err
	}
	b, err := n.ensure(ctx, d)
	if err != nil {
		return err
	}
	to := uint64(0)
	if r.toEnd {
		info, err := b.Info(ctx, n.nameOf(d))
		if err != nil || info.Last == 0 {
			return d.typed(err)
		}
		to = info.Last
	}
	stopped := false
	err = b.Read(ctx, n.nameOf(d), bus.Filter{Partition: d.partition(key), Key: &key}, r.from, to, func(m bus.Message) bool {
		stopped = !take(&m)
		return !stopped
	})
	n.missed(d, err)
	if stopped || errors.Is(err, bus.ErrNoStream) && r.toEnd {
		return nil
	}
	return d.typed(err)
}
