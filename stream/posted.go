package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/stream/internal/bus"
)

// What a turn of a Durable grain publishes leaves as a message that is stored with the turn. A message may come again:
//
//	within half of bus.Config.Window   the bus knows its events by their IDs
//	later, where it may have come      its events are looked for among the key's, from a minute before the turn on

// messages is the kind of the messages. Their receiver is a key of a stream, whose events keep their order.
const messages = "stream"

// posted are events that a turn has published.
type posted struct {
	Stream, Key string
	ID          string // of the message: what the program says, or drawn
	Made        int64  // when the turn has published them, in nanoseconds of Unix time
	List        [][]byte
}

var postedPlan = must(codec.PlanOf(reflect.TypeFor[posted]()))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

const (
	clocks     = time.Minute      // by so much the clocks of nodes and of the bus may differ
	tryWithin  = 10 * time.Second // one try to store events may take so long
	lookWithin = 5 * time.Minute  // and a look for them
)

func init() { grainengine.RegisterDeliverer(messages, deliver) }

// postEvents has events stored when the turn of ctx is. kept is false where ctx is of no turn that has such messages.
// What would keep the events from a stream for good is said in the turn.
func postEvents(ctx context.Context, d *definition, key, id string, list [][]byte) (kept bool, err error) {
	if err := sendable(ctx, d); err != nil {
		return false, err
	}
	p := posted{d.name, key, messageID(key, id), time.Now().UnixNano(), list}
	if p.ID == "" {
		p.ID = "turn-" + rand.Text()
	}
	body, err := postedPlan.AppendAt(nil, unsafe.Pointer(&p), nil)
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", d.name, err)
	}
	return grainengine.PostLater(ctx, messages, d.name+"/"+key, body)
}

// sendable says why a node never sends events of d. It does not wait for NATS.
func sendable(ctx context.Context, d *definition) error {
	n, err := nodeOf(ctx)
	if err != nil {
		return err
	}
	if err := d.config(n.of.Cluster(), n.of.Namespace()).Check(); err != nil {
		return d.typed(err)
	}
	if n.of.Cluster() == "" || n.busNow() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	if at, err := n.of.NATS(ctx); err == nil && at.URL == "" {
		return fmt.Errorf("stream %s: %w", d.name, ErrNoNATS)
	}
	return nil
}

// definitionOf is the stream of that name in this program, nil for none.
func definitionOf(name string) *definition {
	definitions.mu.Lock()
	defer definitions.mu.Unlock()
	if d := definitions.m[name]; d != nil {
		return d
	}
	if of, is := strings.CutSuffix(name, parkedSuffix); is && definitions.m[of] != nil {
		return definitions.m[of].parked()
	}
	return nil
}

// deliver stores the events of a message. What the bus has against them is its outcome; else it comes again, also where
// only a newer program can read it.
func deliver(ctx context.Context, m grainengine.Post) (outcome, err error) {
	var p posted
	if err := postedPlan.DecodeAt(m.Body, unsafe.Pointer(&p), nil); err != nil || len(p.List) == 0 {
		err = errors.Join(err, ErrUnreadable)
		return nil, fmt.Errorf("a message of a Durable grain has no events that this program knows: %w", err)
	}
	d := definitionOf(p.Stream)
	if d == nil {
		return nil, fmt.Errorf("%w: stream %s is not defined in this program", raysys.ErrUnknownFunc, p.Stream)
	}
	made, late, within := time.Unix(0, p.Made), time.Time{}, tryWithin
	if age := time.Since(made).Abs(); m.Again && age >= (bus.Config{Keep: d.keep}).Window()/2 {
		late, within = made, lookWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = d.store(ctx, d.events(p.Key, p.ID, p.List), late)
	for _, final := range []error{raysys.ErrTooLarge, raysys.ErrBadOption, raysys.ErrBadDefinition} {
		if errors.Is(err, final) {
			return err, nil
		}
	}
	return nil, err // the server is away, or full
}

// notStored are those of events, of one key and with IDs, that the bus does not have from a minute before they were made
// on.
func notStored(
	ctx context.Context, b bus.Bus, name string, events []bus.Message, made time.Time,
) (left []bus.Message, err error) {
	f := bus.Filter{Partition: events[0].Partition, Key: &events[0].Key}
	info, err := b.Info(ctx, name)
	if err != nil || info.Count == 0 {
		return events, err
	}
	first, _, err := firstAfter(ctx, b, name, f, info, made.Add(-clocks).UnixNano())
	wanted := map[string]bool{}
	for _, e := range events {
		wanted[e.ID] = true
	}
	for looked := tryWithin; err == nil && looked >= tryWithin && len(wanted) > 0; { // also at what comes meanwhile
		from := time.Now()
		err = b.Read(ctx, name, f, first, info.Last, func(m bus.Message) bool {
			delete(wanted, m.ID)
			return len(wanted) > 0
		})
		if looked = time.Since(from); err == nil && looked >= tryWithin {
			first = info.Last + 1
			info, err = b.Info(ctx, name)
		}
	}
	for _, e := range events {
		if wanted[e.ID] {
			left = append(left, e)
		}
	}
	return left, err
}
