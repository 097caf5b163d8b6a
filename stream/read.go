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
// A server may come back with an older store, which gives the numbers of events that it lost to others. Then Read goes on with the first event that was
// stored after the last one that it had: the numbers go back, and no event comes twice. A stream that was made again is read from its oldest event.
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
	stopped, f := false, bus.Filter{Partition: d.partition(key), Key: &key}
	for {
		err = b.Read(ctx, n.nameOf(d), f, r.from, to, func(m bus.Message) bool {
			r.from, f.Seen = m.Seq+1, bus.Mark{Seq: m.Seq, Time: m.Time.UnixNano()}
			stopped = !take(&m)
			return !stopped
		})
		gone := n.missed(d, err)
		switch {
		case stopped || gone && r.toEnd:
			return nil
		case gone: // whoever uses it next makes it again, as here
			if f.Seen.Seq != 0 {
				r.from, f.Seen = 0, bus.Mark{}
			}
			if b, err = n.ensure(ctx, d); err != nil {
				return err
			}
		case errors.Is(err, bus.ErrOtherStore):
			if r.from, f.Seen, err = n.goOn(ctx, b, d, f, r.from); err != nil {
				return d.typed(err)
			}
		default:
			return d.typed(err)
		}
	}
}

// goOn is where a Read goes on that has come to f.Seen, and would go on with from: there where its store has that event after all.
func (n *node) goOn(ctx context.Context, b bus.Bus, d *definition, f bus.Filter, from uint64) (uint64, bus.Mark, error) {
	name := n.nameOf(d)
	switch err := checkSeen(ctx, b, name, 0, f.Seen); {
	case err == nil, errors.Is(err, bus.ErrNoStream): // which the next Read says again
		return from, f.Seen, nil
	case !errors.Is(err, bus.ErrOtherStore):
		return 0, bus.Mark{}, err
	}
	info, err := b.Info(ctx, name)
	if err != nil {
		return 0, bus.Mark{}, err
	}
	first, last, err := firstAfter(ctx, b, name, bus.Filter{Partition: f.Partition, Key: f.Key}, info, f.Seen.Time)
	if err == nil {
		n.log().Warn("another store: NATS came back without events that were read. The reader goes on with the first event that was stored after those",
			"stream", d.name, "had", f.Seen.Seq, "from", first)
	}
	return first, last, err
}
