package stream

import (
	"context"
	"errors"
	"time"

	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/stream/internal/bus"
)

// A server may come back from a power loss or a snapshot with an older store: it lacks events that were read, and gives their numbers to others. Who reads
// on by number alone would miss those. Pumps and Stream.Read go on by time instead.

// settles: a server that has just become the leader of a stream may not have gone through its log, and says that the stream ends earlier. We
// assume that this takes no longer.
const settles = 3 * time.Second

// checkSeen is bus.CheckSeen, which is asked twice before it says that the store is an older one.
func checkSeen(ctx context.Context, b bus.Bus, name string, made int64, seen bus.Mark) error {
	err := bus.CheckSeen(ctx, b, name, made, seen)
	if errors.Is(err, bus.ErrOtherStore) && backoff.Wait(ctx, settles) {
		err = bus.CheckSeen(ctx, b, name, made, seen)
	}
	return err
}

// firstAfter finds the first number of an older store whose event was stored after a time, in nanoseconds of Unix time, and the last event that f wants
// before it.
func firstAfter(ctx context.Context, b bus.Bus, name string, f bus.Filter, info bus.Info, at int64) (first uint64, last bus.Mark, err error) {
	first, end := info.First, info.Last+1
	for first < end {
		half := first + (end-first)/2
		m, err := b.Next(ctx, name, f, half)
		switch {
		case errors.Is(err, bus.ErrNoEvent) || err == nil && (m.Seq >= end || m.Time.UnixNano() > at):
			end = half
		case err != nil:
			return 0, last, err
		default:
			first, last = m.Seq+1, bus.Mark{Seq: m.Seq, Time: m.Time.UnixNano()}
		}
	}
	return max(first, 1), last, nil
}
