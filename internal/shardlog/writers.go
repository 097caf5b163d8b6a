package shardlog

import "context"

// Writers bounds how many of the shards that share it write to the store at a time. A shard takes what waits for it only
// when its turn comes: whatever comes while others write goes into the same segment. Without a bound more shards than the
// store has connections would close their segments early and queue with them.
type Writers chan struct{}

// NewWriters admits n shards at a time.
func NewWriters(n int) Writers { return make(Writers, n) }

// enter waits for a turn; false when ctx ends before.
func (w Writers) enter(ctx context.Context) bool {
	if w == nil {
		return true
	}
	select {
	case w <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w Writers) leave() {
	if w != nil {
		<-w
	}
}
