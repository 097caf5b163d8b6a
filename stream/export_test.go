package stream

import "context"

// PublishRaw stores bytes that may be no T.
func (s Stream[T]) PublishRaw(ctx context.Context, key string, data []byte) (uint64, error) {
	return s.d.publish(ctx, key, [][]byte{data})
}

// Forget loses what the cursor has stored.
func (c *Cursor) Forget(ctx context.Context) error { return c.positions.Clear(ctx) }
