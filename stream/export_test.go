package stream

import (
	"context"
	"time"
	"unsafe"

	"github.com/raysys/raysys/internal/grainengine"
)

// Deliver has by deliver what turns of Durable grains publish, until back is called.
func Deliver(by func(ctx context.Context, m grainengine.Post, deliver func() error) error) (back func()) {
	grainengine.RegisterDeliverer(messages, func(ctx context.Context, m grainengine.Post) (outcome, err error) {
		err = by(ctx, m, func() (err error) {
			outcome, err = deliver(ctx, m)
			return err
		})
		return outcome, err
	})
	return func() { grainengine.RegisterDeliverer(messages, deliver) }
}

// NotStored looks for events that may be stored.
var NotStored = notStored

// DeliverPart stores the first events of a message.
func DeliverPart(ctx context.Context, m grainengine.Post, n int) error {
	var p posted
	if err := postedPlan.DecodeAt(m.Body, unsafe.Pointer(&p), nil); err != nil {
		return err
	}
	definitions.mu.Lock()
	d := definitions.m[p.Stream]
	definitions.mu.Unlock()
	events := d.events(p.Key, p.ID, p.List)
	_, err := d.store(ctx, events[:min(n, len(events))], time.Time{})
	return err
}

// PublishRaw stores bytes that may be no T.
func (s Stream[T]) PublishRaw(ctx context.Context, key string, data []byte) (uint64, error) {
	return s.d.publish(ctx, key, "", [][]byte{data})
}

// Forget loses what the cursor has stored.
func (c *Cursor) Forget(ctx context.Context) error { return c.positions.Clear(ctx) }

// Parted is the stream as another version of the program would define it.
func (s Stream[T]) Parted(n int) Stream[T] {
	d := *s.d
	d.partitions = n
	return Stream[T]{d: &d}
}

// Remove drops the stream from a bus in memory.
func (s Stream[T]) Remove(ctx context.Context) error {
	n, err := nodeOf(ctx)
	if err == nil {
		n.bus.(*sharedMemory).Remove(n.nameOf(s.d))
	}
	return err
}

// Refind has the node of ctx look for the stream in its bus again.
func (s Stream[T]) Refind(ctx context.Context) error {
	n, err := nodeOf(ctx)
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.made, s.d.name)
	}
	return err
}

// Bounded is the context of a handler that has d.
func Bounded(ctx context.Context, d time.Duration) (context.Context, func()) {
	b := &bounded{Context: ctx, end: time.Now().Add(d)}
	return b, b.close
}

// Held is what all pumps of the process have in memory, of one pump the most, and how many grains have events left.
func Held() (events, bytes, again, busy int) {
	nodes.Range(func(_, v any) bool {
		n := v.(*node)
		n.mu.Lock()
		defer n.mu.Unlock()
		for p := range n.pumps {
			p.mu.Lock()
			events, bytes, again, busy = max(events, p.held.events), max(bytes, p.held.bytes), max(again, p.again.events), busy+p.busy
			p.mu.Unlock()
		}
		return true
	})
	return events, bytes, again, busy
}

// The bounds of one pump.
var MaxHeld, MaxHeldBytes, MaxAgain = most.events, most.bytes, mostAgain.events

// Restore has the stream in a bus in memory end with an event before its last.
func (s Stream[T]) Restore(ctx context.Context, last uint64) error {
	n, err := nodeOf(ctx)
	if err == nil {
		n.bus.(*sharedMemory).Restore(n.nameOf(s.d), last)
	}
	return err
}

// Place is where a Cursor has the number of an event.
func Place(subscription string, part int, made int64, generation int) string {
	d := delivery{Subscription: subscription, Partition: part, Made: made, Generation: generation}
	return d.place()
}

// DeliverNow delivers a message.
var DeliverNow = deliver
