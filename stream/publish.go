package stream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/stream/internal/bus"
)

// Publish stores an event of key, and returns its number when it is safe: in a cluster on the disks of most of the servers that have the stream.
// Events that one goroutine publishes for a key are in their order. While the server is away Publish waits, until ctx ends; then it may
// have stored the event or not.
//
// In a turn of a Durable grain, also of a ReadOnly method or a timer, the number is 0, and the event is stored with
// the turn as a message (grains.Durable): it is published after that until the server has it, and then it is in the
// stream once. The events of a key that one grain publishes are in their order. An event may be twice in the stream
// where its node stands still for a minute while it sends the event, where clocks differ by a minute, and where the
// stream does not keep events until they are sent again. A hook publishes at once, as any other program does.
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

// publish stores events, of which one may have an id, or has them stored when the turn of ctx is.
func (d *definition) publish(ctx context.Context, key, id string, list [][]byte) (uint64, error) {
	if grainengine.PostsWait(ctx) {
		if kept, err := postEvents(ctx, d, key, id, list); kept || err != nil {
			return 0, err
		}
	}
	return d.store(ctx, d.events(key, messageID(key, id), list), time.Time{})
}

// events are events of a key; "" is no id.
func (d *definition) events(key, id string, list [][]byte) []bus.Message {
	events := make([]bus.Message, len(list))
	for i := range list {
		events[i] = bus.Message{Key: key, Partition: d.partition(key), Data: list[i], ID: id}
		if id != "" && len(list) > 1 {
			events[i].ID += "-" + strconv.Itoa(i)
		}
	}
	return events
}

// store stores events. Those of a message that has come late, which was made at that time, may be stored already.
func (d *definition) store(ctx context.Context, events []bus.Message, late time.Time) (seq uint64, err error) {
	n, err := nodeOf(ctx)
	if err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		b, err := n.ensure(ctx, d)
		if err != nil {
			return 0, err
		}
		left := events
		if !late.IsZero() {
			left, err = notStored(ctx, b, n.nameOf(d), events, late)
			within, cancel := context.WithTimeout(ctx, tryWithin)
			defer cancel()
			ctx = within
		}
		if err == nil && len(left) > 0 {
			seq, err = b.Publish(ctx, n.nameOf(d), left)
		}
		if !n.missed(d, err) || try > 1 { // the server came back without it, or somebody has removed it
			return seq, d.typed(err)
		}
	}
}
