package stream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/stream/internal/bus"
)

// Publish stores an event of key, and returns its number when it is safe: in a cluster on the disks of most of the servers that have the stream.
// Events that one goroutine publishes for a key are in their order. While the server is away Publish waits, until ctx ends; then it may
// have stored the event or not.
//
// In a turn of a Durable grain, also of a ReadOnly method or a timer, the number is 0, and the event is stored with the
// turn as a message (grains.Durable): it is published after that, until the server has it, in the order of its part. So
// it may be stored twice, unless it has an ID and comes again within Config.Window. In a hook it is published once.
func (s Stream[T]) Publish(ctx context.Context, key string, v T, opts ...PublishOption) (uint64, error) {
	if err := s.d.checkKey(key); err != nil {
		return 0, err
	}
	var p publishing
	for _, o := range opts {
		if err := o(&p); err != nil {
			return 0, fmt.Errorf("stream %s: %w", s.d.name, err)
		}
	}
	data, err := s.d.encode(unsafe.Pointer(&v))
	if err != nil {
		return 0, err
	}
	return s.d.publish(ctx, key, p.id, [][]byte{data})
}

// PublishOption changes a Publish.
type PublishOption func(*publishing) error

type publishing struct{ id string }

// ID says what the event is, so that a request may be repeated: of two events of one key with the same id that are published within two minutes, or within
// Keep where that is shorter, the first is stored, and the second Publish returns its number. What else they have is not compared.
func ID(id string) PublishOption {
	return func(p *publishing) error {
		if id == "" {
			return errors.New(`ID(""): give an id, or leave the option out`)
		}
		p.id = id
		return nil
	}
}

// messageID is the id of an event among those of a stream, "" for none. An id that a program gives may be long, and is a key's.
func messageID(key, id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(key), key, id))
	return "id-" + base64.RawURLEncoding.EncodeToString(sum[:])
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
	_, err := s.d.publish(ctx, key, "", data)
	return err
}

func (d *definition) publish(ctx context.Context, key, id string, list [][]byte) (uint64, error) {
	if grainengine.TellsWait(ctx) {
		to, o := publishers.Get(d.name+"/"+strconv.Itoa(d.partition(key))), outgoing{d.name, key, list}
		if id != "" {
			return 0, publishOnce.Tell(ctx, to, outgoingOnce{o, id})
		}
		return 0, publishLater.Tell(ctx, to, o)
	}
	return d.store(ctx, key, id, list)
}

// store stores events. One of them may have an id.
func (d *definition) store(ctx context.Context, key, id string, list [][]byte) (uint64, error) {
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
		events[i] = bus.Message{Key: key, Partition: d.partition(key), Data: list[i], ID: messageID(key, id)}
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

// outgoingOnce is one event with an id. It is a type of its own: a program of before, which knows no ids, takes the other.
type outgoingOnce struct {
	Outgoing outgoing
	ID       string
}

var (
	publishers   = grains.Define[publisher]("stream.publisher", grains.Unfiltered())
	publishLater = grains.Action(publishers, "publish", (*publisher).Publish)
	publishOnce  = grains.Action(publishers, "publish-once", (*publisher).PublishOnce)
)

// Publish publishes. The definition is that of this program, which may have changed since.
func (p *publisher) Publish(ctx context.Context, o outgoing) error {
	return p.PublishOnce(ctx, outgoingOnce{Outgoing: o})
}

// PublishOnce publishes an event that has an id.
func (*publisher) PublishOnce(ctx context.Context, once outgoingOnce) error {
	o := once.Outgoing
	definitions.mu.Lock()
	d := definitions.m[o.Stream]
	definitions.mu.Unlock()
	if d == nil {
		return fmt.Errorf("%w: stream %s is not defined in this program", grainengine.ErrTellAgain, o.Stream)
	}
	_, err := d.store(ctx, o.Key, once.ID, o.List)
	if err == nil || errors.Is(err, raysys.ErrTooLarge) || errors.Is(err, raysys.ErrBadOption) || errors.Is(err, raysys.ErrBadDefinition) {
		return err
	}
	return fmt.Errorf("%w: %w", grainengine.ErrTellAgain, err) // the server is away, or full
}
