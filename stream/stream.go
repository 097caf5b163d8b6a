package stream

import (
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/stream/internal/bus"
)

// Stream is a typed handle of a stream. Make it once, in a package variable, with Define.
type Stream[T any] struct {
	_ [0]*T
	d *definition
}

// Event is one event of a stream.
type Event[T any] struct {
	Key   string
	Seq   uint64    // its number: it grows along the stream, and some are left out
	Time  time.Time // when it was stored, by the clock of who stores
	Value T
	// Reason says of an event of a stream of parked ones why a handler could not take it.
	Reason string
	// Data is Value as it is stored. It is there where Value could not be decoded, too.
	Data []byte
}

// definition is what all handles of a stream share.
type definition struct {
	name       string
	partitions int
	keep       time.Duration
	typ        reflect.Type
	plan       *codec.Plan
	bad        error
}

// Option changes a stream: Define takes it.
type Option func(*definition) error

// Keep is for how long events are kept at least: 7 days unless set, and for ever with 0. The shortest is 100 ms. A reader that is further behind misses
// what has gone.
func Keep(d time.Duration) Option {
	return func(s *definition) error {
		if d < 0 {
			return fmt.Errorf("Keep(%v): give a positive duration, or 0 for ever", d)
		}
		s.keep = d
		return nil
	}
}

// Partitions is how many parts the keys are spread over: 16 unless set. Each part is delivered by one node at a time. It cannot be changed
// once the stream is made.
func Partitions(n int) Option {
	return func(s *definition) error {
		if n < 1 || n > maxPartitions {
			return fmt.Errorf("Partitions(%d): give 1 to %d", n, maxPartitions)
		}
		s.partitions = n
		return nil
	}
}

const maxPartitions = bus.MaxPartitions

const (
	// MaxKey is the most bytes that a key has.
	MaxKey = 256
	// MaxEvent is the most bytes that an event has as it is stored: 1 MiB less 4 KiB, for what a server adds. A server whose max_payload is less takes less.
	MaxEvent = 1<<20 - 4<<10
)

// They are those of the buses: this compiles where the index is 0.
var _ = [1]struct{}{}[MaxKey-bus.MaxKey+MaxEvent-bus.MaxData]

// config is the stream as a bus has it, for the programs of a namespace.
func (d *definition) config(cluster, namespace string) bus.Config {
	return bus.Config{Name: cluster + "/" + namespace + "/" + d.name, Partitions: d.partitions, Keep: d.keep, Replicas: replicas}
}

// Fits implements core.Fitter: the stream of a subscription, and the one of its parked events, are such as a server takes. A stream alone is refused
// when it is used first.
func (s *subscription) Fits(cluster, namespace string) error {
	return errors.Join(s.d.config(cluster, namespace).Check(), s.d.parked().config(cluster, namespace).Check())
}

// definitions are the streams of the process, by name.
var definitions struct {
	mu sync.Mutex
	m  map[string]*definition
}

// Define makes a stream of events of type T under name. T is encoded as an argument of a task is, without references: fields may be added to
// it and taken away between versions of the program. A bad definition is reported by system.New with its file and line.
//
// A server has the stream under the names of the cluster, the namespace and the stream. They have at most 255 bytes together, where each that is no
// letter, digit, - or _ counts three. Into needs 9 of them for the stream of parked events.
func Define[T any](name string, opts ...Option) Stream[T] {
	return Stream[T]{d: define(name, reflect.TypeFor[T](), opts)}
}

func define(name string, t reflect.Type, opts []Option) *definition {
	d := &definition{name: name, partitions: 16, keep: 7 * 24 * time.Hour, typ: t}
	var bad error
	for _, o := range opts {
		if o == nil {
			bad = errors.Join(bad, errors.New("nil Option"))
			continue
		}
		bad = errors.Join(bad, o(d))
	}
	var err error
	if d.plan, err = codec.PlanOf(t); err != nil {
		bad = errors.Join(bad, fmt.Errorf("events: %w", err))
	} else if d.plan.HasRefs() {
		bad = errors.Join(bad, fmt.Errorf("events: %s holds references, which end with their owner: store the value", t))
	}
	if d.bad = bad; bad != nil {
		d.bad = fmt.Errorf("%w: stream %q: %w", raysys.ErrBadDefinition, name, bad)
	}
	core.DefaultTable.Add("stream", name, 0, bad, 2)
	definitions.mu.Lock()
	defer definitions.mu.Unlock()
	if definitions.m == nil {
		definitions.m = map[string]*definition{}
	}
	definitions.m[name] = d
	return d
}

// Name returns the stream's name.
func (s Stream[T]) Name() string { return s.d.name }

// Parked is the stream of the events that handlers of this one could not take. It is there when there is such an event.
func (s Stream[T]) Parked() Stream[T] { return Stream[T]{d: s.d.parked()} }

const parkedSuffix = ".parked"

// parked is the definition of the stream of parked events.
func (d *definition) parked() *definition {
	return &definition{name: d.name + parkedSuffix, partitions: d.partitions, typ: d.typ, plan: d.plan, bad: d.bad}
}

func (d *definition) partition(key string) int {
	return int(crc32.ChecksumIEEE([]byte(key)) % uint32(d.partitions))
}

// encode is a value as it is stored.
func (d *definition) encode(v unsafe.Pointer) ([]byte, error) {
	b, err := d.plan.AppendAt(nil, v, nil)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", d.name, err)
	}
	return b, nil
}

// decode reads a value from what is stored.
func (d *definition) decode(data []byte, v unsafe.Pointer) error {
	if err := d.plan.DecodeAt(data, v, nil); err != nil {
		return fmt.Errorf("%w: stream %s: an event is no %s: %w", ErrUnreadable, d.name, d.typ, err)
	}
	return nil
}

// checkKey says what is wrong with a key.
func (d *definition) checkKey(key string) error {
	switch {
	case d == nil:
		return fmt.Errorf("%w: the Stream is the zero value: make it with stream.Define", raysys.ErrBadDefinition)
	case d.bad != nil:
		return d.bad
	case len(key) > MaxKey:
		return fmt.Errorf("%w: stream %s: a key of %d bytes: %d are allowed", raysys.ErrTooLarge, d.name, len(key), MaxKey)
	}
	return nil
}
