package stream

import (
	"context"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/stream/internal/bus"
)

// Publish stores an event of key, and returns its number when it is safe: in a cluster on the disks of most of the servers that have the stream.
// Events that one goroutine publishes for a key are in their order. While the server is away Publish waits, until ctx ends; then it may
// have stored the event or not.
//
// In a turn of a Durable grain the event leaves when the turn is stored, at most once, and the number is 0.
func (s Stream[T]) Publish(ctx context.Context, key string, v T) (uint64, error) {
	if err := s.d.checkKey(key); err != nil {
		return 0, err
	}
	data, err := s.d.encode(unsafe.Pointer(&v))
	if err != nil {
		return 0, err
	}
	return s.d.publish(ctx, key, [][]byte{data})
}

// PublishAll is Publish for several events of one key, in their order, with fewer round trips. Up to 500 are stored together or not at all; of more, or
// of fewer than 8, a first part may be stored when it fails.
func (s Stream[T]) PublishAll(ctx context.Context, key string, list []T) error {
	if err := s.d.checkKey(key); err != nil || len(list) == 0 {
		return err
	}
	data := make([][]byte, len(list))
	for i := range list {
		var err error
		if data[i], err = s.d.encode(unsafe.Pointer(&list[i])); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	_, err := s.d.publish(ctx, key, data)
	return err
}

func (d *definition) publish(ctx context.Context, key string, list [][]byte) (uint64, error) {
	if grainengine.InTransaction(ctx) {
		return 0, publishLater.Tell(ctx, publishers.Get(d.name+"/"+strconv.Itoa(d.partition(key))), outgoing{d.name, key, list})
	}
	return d.store(ctx, key, list)
}

func (d *definition) store(ctx context.Context, key string, list [][]byte) (uint64, error) {
	n, err := nodeOf(ctx)
	if err != nil {
		return 0, err
	}
	b, err := n.ensure(ctx, d)
	if err != nil {
		return 0, err
	}
	events := make([]bus.Message, len(list))
	for i := range list {
		events[i] = bus.Message{Key: key, Partition: d.partition(key), Data: list[i]}
	}
	seq, err := b.Publish(ctx, n.nameOf(d), events)
	if n.missed(d, err) { // the server came back without it, or somebody has removed it
		if b, err = n.ensure(ctx, d); err != nil {
			return 0, err
		}
		seq, err = b.Publish(ctx, n.nameOf(d), events)
	}
	return seq, d.typed(err)
}

// publisher is the grain that publishes what turns of Durable grains have published: a Tell leaves when the turn is stored.
type publisher struct{}

// outgoing is events that it is told.
type outgoing struct {
	Stream, Key string
	List        [][]byte
}

var (
	publishers   = grains.Define[publisher]("stream.publisher")
	publishLater = grains.Action(publishers, "publish", (*publisher).Publish)
)

// Publish publishes. The definition is that of this program, which may have changed since.
func (*publisher) Publish(ctx context.Context, o outgoing) error {
	definitions.mu.Lock()
	d := definitions.m[o.Stream]
	definitions.mu.Unlock()
	if d == nil {
		return fmt.Errorf("stream %s is not defined in this program", o.Stream)
	}
	_, err := d.store(ctx, o.Key, o.List)
	return err
}
