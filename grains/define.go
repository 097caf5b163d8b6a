package grains

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// Kind is a typed handle of a grain kind: the struct G under a stable name. Make it once, in a package variable.
type Kind[G any] struct{ k *kind }

// kind is what all handles of a kind share. But for its cache it is immutable.
type kind struct {
	entry     *core.Entry
	name      string
	make      func() any
	idle      time.Duration
	mailbox   int
	stateless bool
	workers   int // of a stateless kind; 0 for one per CPU of the node
	reentrant bool
	onPanic   PanicChoice
	strategy  raysys.Strategy   // "" for the default
	labels    map[string]string // a node must have them all
	states    []stateDef
	bound     atomic.Pointer[boundKind] // a cache for bind
}

// PanicChoice says what happens to an activation whose method panicked. The call fails with a *raysys.TaskError in
// every case, and the process lives.
type PanicChoice uint8

const (
	// KeepOnPanic leaves the activation as it is: the default.
	KeepOnPanic PanicChoice = iota
	// DeactivateOnPanic stops the activation; the next call finds a new one.
	DeactivateOnPanic
	// RestartOnPanic gives the activation a new G, and OnActivate runs again; calls in the mailbox are kept.
	RestartOnPanic
)

// Option changes a kind.
type Option func(*kind) error

// StatelessWorker makes every key of the kind a pool of up to n activations on each node, which share the calls to that
// key: for work that needs a place, such as a loaded policy, and no identity. n of 0 means one per CPU. A node that
// runs workers calls its own; a driver's calls go to all nodes in turn, or to the node that the kind's strategy chooses
// for the key, where that is another than Balanced and Spread.
func StatelessWorker(n int) Option {
	return func(k *kind) error {
		if n < 0 {
			return fmt.Errorf("StatelessWorker(%d): give 0 (one per CPU) or more", n)
		}
		k.stateless = true
		k.workers = n
		return nil
	}
}

// Reentrant admits calls of a call chain that comes back to a grain whose turn waits for it, for all methods. The
// turns never run at the same time, but the state may have changed across a Get.
func Reentrant() Option { return func(k *kind) error { k.reentrant = true; return nil } }

// IdleAfter deactivates activations that had no call for d, within a sixteenth of d after that: 15 minutes unless set.
func IdleAfter(d time.Duration) Option {
	return func(k *kind) error {
		if d <= 0 {
			return fmt.Errorf("IdleAfter(%v): give a positive duration", d)
		}
		k.idle = d
		return nil
	}
}

// Mailbox bounds the calls that wait for one activation: 10,000 unless set. Beyond it calls fail with ErrOverloaded.
func Mailbox(n int) Option {
	return func(k *kind) error {
		if n <= 0 {
			return fmt.Errorf("Mailbox(%d): give 1 or more", n)
		}
		k.mailbox = n
		return nil
	}
}

// OnPanic chooses what a panic does to the activation.
func OnPanic(c PanicChoice) Option { return func(k *kind) error { k.onPanic = c; return nil } }

// Placement chooses the strategy by which the grains of the kind get their nodes: raysys.Balanced unless set. A call
// with raysys.Placement wishes for another, which counts if it is the one that places the grain.
func Placement(s raysys.Strategy) Option {
	return func(k *kind) error {
		if s == "" {
			return fmt.Errorf("Placement(%q): name a strategy, such as raysys.Spread", s)
		}
		k.strategy = s
		return nil
	}
}

// Label keeps the grains of the kind to nodes that carry the label key with exactly this value. Several labels must all
// match.
func Label(key, value string) Option {
	return func(k *kind) error {
		if key == "" {
			return fmt.Errorf("Label(%q, %q): a label needs a key", key, value)
		}
		if k.labels == nil {
			k.labels = map[string]string{}
		}
		k.labels[key] = value
		return nil
	}
}

// Activator is implemented by a grain that prepares itself: OnActivate runs before the first call, on the same
// turn-by-turn terms as a call. An error fails the calls that wait, and the next call tries again.
type Activator interface {
	OnActivate(ctx context.Context) error
}

// Deactivator is implemented by a grain that cleans up: OnDeactivate runs after the last call, before another
// activation of the grain may start. It does not run when the process dies.
type Deactivator interface {
	OnDeactivate(ctx context.Context) error
}

// Define makes G a kind of grain under name, in the process-wide table. G is any struct; its methods become callable
// with Method and its siblings. A bad definition is reported by system.New with its file and line.
func Define[G any](name string, opts ...Option) Kind[G] {
	return define[G](core.DefaultTable, name, opts)
}

// DefineIn is Define in a table of your own, for tests; give the table to system.Config.Table.
func DefineIn[G any](t *raysys.Table, name string, opts ...Option) Kind[G] {
	return define[G](t, name, opts)
}

func define[G any](t *raysys.Table, name string, opts []Option) Kind[G] {
	k := &kind{name: name, make: func() any { return new(G) }, idle: 15 * time.Minute, mailbox: 10_000}
	var bad error
	for _, o := range opts {
		if o == nil {
			bad = errors.Join(bad, errors.New("nil Option"))
			continue
		}
		bad = errors.Join(bad, o(k))
	}
	states, err := statesOf(reflect.TypeFor[G]())
	k.states = states
	k.entry = t.Add("grain", name, 0, errors.Join(bad, err), 2)
	k.entry.Impl = k
	return Kind[G]{k}
}

// method is what all handles of a method share.
type method[G, A, R any] struct {
	kind  *kind
	entry *core.Entry
	fn    func(*G, context.Context, A) (R, error)
	arg   *codec.Plan
	res   *codec.Plan
	gated bool
	opts  core.Options
	bad   error // why no call can have opts

	readOnly, idempotent, reentrant bool
}

func defineMethod[G, A, R any](k Kind[G], name string, isNil bool, fn func(*G, context.Context, A) (R, error)) *method[G, A, R] {
	var bad error
	if k.k == nil {
		// Without a kind there is no table to report to but the process's.
		k.k = &kind{name: "?", entry: &core.Entry{Kind: "grain", Name: "?", Table: core.DefaultTable}}
		bad = errors.New("the Kind is the zero value: make it with Define")
	}
	if isNil {
		bad = errors.Join(bad, errors.New("the function is nil"))
	}
	if name == "" {
		bad = errors.Join(bad, errors.New("the method name is empty"))
	}
	arg, err := codec.PlanOf(reflect.TypeFor[A]())
	if err != nil {
		bad = errors.Join(bad, fmt.Errorf("argument: %w", err))
	}
	res, err := codec.PlanOf(reflect.TypeFor[R]())
	if err != nil {
		bad = errors.Join(bad, fmt.Errorf("result: %w", err))
	}
	var print uint64
	if arg != nil && res != nil {
		print = arg.Fingerprint()*31 + res.Fingerprint()
	}
	m := &method[G, A, R]{kind: k.k, fn: fn, arg: arg, res: res, gated: core.HasPointers[R](), opts: core.NewOptions[core.Option](nil)}
	m.reentrant = k.k.reentrant
	m.entry = k.k.entry.Table.Add("method", k.k.name+"."+name, print, bad, 2)
	m.entry.Impl = newReception(m)
	return m
}

// Name returns the kind's name.
func (k Kind[G]) Name() string {
	if k.k == nil {
		return ""
	}
	return k.k.name
}

// Get returns the grain of this kind with the given key. It exists always; the first call activates it.
func (k Kind[G]) Get(key string) Grain[G] { return Grain[G]{ID{Kind: k.Name(), Key: key}} }
