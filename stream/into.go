package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/stream/internal/bus"
)

// Subscription is the handle that Into returns.
type Subscription struct{ s *subscription }

// Name is the stream's name and the kind's, as `raysys list streams` shows it.
func (s Subscription) Name() string { return s.s.name }

// subscription is where the events of a stream go.
type subscription struct {
	name string // also of what cursors and agents keep
	kind string
	d    *definition
	send func(ctx context.Context, to string, d delivery) raysys.Ref[outcome]
	to   func(*bus.Message) (string, error) // nil: the key

	as       string        // see As
	attempts int           // after which an event is parked or dropped; 0: it is tried for ever
	most     time.Duration // of the pause between two attempts
	within   time.Duration // that a handler has
	park     bool
	drop     bool
}

// IntoOption changes a subscription: Into takes it.
type IntoOption func(*subscription) error

// Into has each event of a stream delivered to a grain of kind k: the event of key x to the grain with the key x, unless To says otherwise. fn
// is the handler, usually a method expression such as (*Account).OnOrder. Make subscriptions in package variables.
//
// Delivery is at least once, and in the order of each key: the handler has returned nil for one event of a grain before the next one comes.
// Different grains get theirs at the same time. Events are delivered from the oldest that is stored, and while some program of the
// namespace runs that has the subscription. With a Cursor in a Durable kind an event counts once.
//
// An event whose handler fails comes again after a pause that grows up to a minute, and the events of that grain wait. OnError changes that. A
// handler has 2 minutes: Within changes that. An event that is no T is parked at once.
func Into[T, G any](s Stream[T], k grains.Kind[G], fn func(*G, context.Context, Event[T]) error, opts ...IntoOption) Subscription {
	sub := subscribe(s.d, k.Name(), opts)
	take := grains.Method(k, sub.method(), func(g *G, ctx context.Context, d delivery) (outcome, error) {
		c, o, done := d.begin(g)
		if done {
			return o, nil
		}
		e := Event[T]{Key: d.Key, Seq: d.Seq, Time: time.Unix(0, d.Time), Reason: d.Reason, Data: d.Data}
		if err := sub.d.decode(d.Data, unsafe.Pointer(&e.Value)); err != nil {
			return outcome{Unreadable: err.Error()}, nil
		}
		within := &bounded{Context: ctx, end: time.Now().Add(sub.within)}
		defer within.close()
		switch err := fn(g, within, e); {
		case err != nil && ctx.Err() != nil: // the call has ended, such as with its node: that is no failure of the handler
			return o, ctx.Err()
		case err != nil || c == nil:
			return o, err
		}
		return outcome{Cursor: true}, c.take(ctx, &d)
	}).Idempotent().With(raysys.NoDeadline())
	sub.send = func(ctx context.Context, to string, d delivery) raysys.Ref[outcome] {
		return take.Call(ctx, k.Get(to), d)
	}
	sub.enter()
	return Subscription{sub}
}

// maxGrainKey is the most bytes that the key of a grain has.
const maxGrainKey = 1024

// To chooses the grain of an event: its key. T is the type of the stream's events. The order of a grain's events is kept for each key of the stream,
// and all events of one part of the stream.
func To[T any](f func(Event[T]) string) IntoOption {
	return func(s *subscription) error {
		if s.d.typ != reflect.TypeFor[T]() {
			return fmt.Errorf("To: it takes events of %s, and those of stream %s are %s", reflect.TypeFor[T](), s.d.name, s.d.typ)
		}
		s.to = func(m *bus.Message) (to string, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("the function given to To panicked: %v", p)
				}
			}()
			e := Event[T]{Key: m.Key, Seq: m.Seq, Time: m.Time, Reason: m.Reason, Data: m.Data}
			if err := s.d.decode(m.Data, unsafe.Pointer(&e.Value)); err != nil {
				return "", err
			}
			if to = f(e); len(to) > maxGrainKey {
				return "", fmt.Errorf("%w: To chooses a key of %d bytes: %d are allowed", raysys.ErrTooLarge, len(to), maxGrainKey)
			}
			return to, nil
		}
		return nil
	}
}

// As names the subscription, where a kind has two of the same stream. What has been delivered is kept under the name.
func As(name string) IntoOption {
	return func(s *subscription) error {
		if name == "" {
			return errors.New("As: give a name")
		}
		s.as = name
		return nil
	}
}

// ErrorChoice is a part of what OnError says.
type ErrorChoice func(*subscription) error

// OnError says what becomes of an event whose handler fails: OnError(Retry(10, time.Minute), Park).
func OnError(choices ...ErrorChoice) IntoOption {
	return func(s *subscription) (err error) {
		for _, c := range choices {
			err = errors.Join(err, c(s))
		}
		switch {
		case s.park && s.drop:
			err = errors.Join(err, errors.New("OnError: Park and Drop: give one of them"))
		case s.attempts > 0 && !s.park && !s.drop:
			err = errors.Join(err, fmt.Errorf("OnError: Retry(%d, ...) alone: say Park or Drop, for what comes after it", s.attempts))
		case s.attempts == 0:
			s.attempts = 1 // Park or Drop alone
		}
		return err
	}
}

// Retry calls the handler up to n times, with a growing pause of at most `most` between. What ends an attempt from outside does not count: the
// node of the grain died, was drained or was fenced, or there was no room.
func Retry(n int, most time.Duration) ErrorChoice {
	return func(s *subscription) error {
		if n < 1 || most <= 0 {
			return fmt.Errorf("Retry(%d, %v): give 1 or more, and a positive duration", n, most)
		}
		s.attempts, s.most = n, most
		return nil
	}
}

// Park puts the event into the stream of parked ones, which Stream.Parked reads, and goes on with the next.
func Park(s *subscription) error { s.park = true; return nil }

// Drop leaves the event out, with a line in the log.
func Drop(s *subscription) error { s.drop = true; return nil }

// all are the subscriptions of the process, by name.
var all struct {
	mu sync.Mutex
	m  map[string]*subscription
}

func subscribe(d *definition, kind string, opts []IntoOption) *subscription {
	if d == nil {
		d = define("", reflect.TypeFor[struct{}](), nil) // it is reported as bad
	}
	s := &subscription{d: d, kind: kind, most: time.Minute, within: defaultWithin}
	var bad error
	for _, o := range opts {
		if o == nil {
			bad = errors.Join(bad, errors.New("nil IntoOption"))
			continue
		}
		bad = errors.Join(bad, o(s))
	}
	s.name = d.name + ">" + kind
	if s.as != "" {
		s.name += ">" + s.as
	}
	core.DefaultTable.Add("subscription", s.name, 0, bad, 2).Impl = s
	return s
}

// method is the name of the method by which the kind takes events.
func (s *subscription) method() string {
	if s.as != "" {
		return "stream." + s.d.name + "." + s.as
	}
	return "stream." + s.d.name
}

// enter makes the subscription known. One that has a bad definition is, too: system.New fails.
func (s *subscription) enter() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.m == nil {
		all.m = map[string]*subscription{}
	}
	all.m[s.name] = s
}

// subscriptions lists them by name.
func subscriptions() (list []*subscription) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.m {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *subscription) int { return cmp.Compare(a.name, b.name) })
	return list
}

// target is the key of the grain that gets the event.
func (s *subscription) target(m *bus.Message) (string, error) {
	if s.to == nil {
		return m.Key, nil
	}
	return s.to(m)
}
