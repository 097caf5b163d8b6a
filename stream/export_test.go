package stream

import (
	"context"
	"time"
)

// PublishRaw stores bytes that may be no T.
func (s Stream[T]) PublishRaw(ctx context.Context, key string, data []byte) (uint64, error) {
	return s.d.publish(ctx, key, [][]byte{data})
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
