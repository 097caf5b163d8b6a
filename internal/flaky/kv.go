package flaky

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/store"
)

// Fault is what happens to a call.
type Fault int

const (
	// None lets the call through.
	None Fault = iota
	// Refuse does nothing and says ErrUnavailable.
	Refuse
	// LoseCall keeps the call from the store: a change ends with ErrUnknownOutcome, a read with ErrUnavailable.
	LoseCall
	// LoseAnswer makes the call; a change ends in ErrUnknownOutcome, a read in ErrUnavailable.
	LoseAnswer
	// Delay makes a change only when Deliver is called, and ends in ErrUnknownOutcome now. Reads are lost.
	Delay
)

// Call is a call on its way to the store.
type Call struct {
	Verb string     // the method's name: "Get", "Txn", ...
	Key  string     // or prefix, or session
	Ops  []store.Op // of a Txn
}

// Writes reports whether the call changes the store.
func (c Call) Writes() bool {
	for _, op := range c.Ops {
		if op.Verb.Writes() {
			return true
		}
	}
	return c.Verb == "NewSession" || c.Verb == "Renew" || c.Verb == "Destroy"
}

// KV is a store.KV with faults. Make it with Wrap.
type KV struct {
	inner store.KV

	mu     sync.Mutex
	hook   func(Call) Fault
	down   bool
	broken context.CancelCauseFunc // ends watches when the store goes down
	watch  context.Context
	slow   time.Duration
	next   []Fault
	late   []func()
	calls  int
	closed bool
}

var _ store.KV = (*KV)(nil)

// Wrap returns kv with faults, none to begin with.
func Wrap(kv store.KV) *KV {
	k := &KV{inner: kv}
	k.watch, k.broken = context.WithCancelCause(context.Background())
	return k
}

// Hook has f decide over every call, unless Down or FailNext do; nil for none. It runs on the caller's goroutine and may
// block.
func (k *KV) Hook(f func(Call) Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hook = f
}

// Down makes every call fail with ErrUnavailable, and ends watches, until it is called with false.
func (k *KV) Down(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down = down; down {
		k.broken(fmt.Errorf("%w: the connection broke", store.ErrUnavailable))
		k.watch, k.broken = context.WithCancelCause(context.Background())
	}
}

// Slow makes every call but Watch wait for d first.
func (k *KV) Slow(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slow = d
}

// FailNext makes the next n calls that write fail by f.
func (k *KV) FailNext(n int, f Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range n {
		k.next = append(k.next, f)
	}
}

// Deliver makes the changes that Delay held back, in their order, and returns how many there were.
func (k *KV) Deliver() int {
	k.mu.Lock()
	late := k.late
	k.late = nil
	k.mu.Unlock()
	for _, f := range late {
		f()
	}
	return len(late)
}

// Calls returns how many calls were begun.
func (k *KV) Calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

func (k *KV) fault(c Call) (Fault, time.Duration, error) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return None, 0, fmt.Errorf("%s %s: %w", c.Verb, c.Key, store.ErrClosed)
	}
	k.calls++
	hook, slow := k.hook, k.slow
	f := None
	switch {
	case k.down:
		f, hook = Refuse, nil
	case len(k.next) > 0 && c.Writes():
		f, hook = k.next[0], nil
		k.next = k.next[1:]
	}
	k.mu.Unlock()
	if hook != nil {
		f = hook(c)
	}
	return f, slow, nil
}

func run[T any](k *KV, ctx context.Context, c Call, f func(ctx context.Context) (T, error)) (zero T, err error) {
	fault, slow, err := k.fault(c)
	if err != nil {
		return zero, err
	}
	if slow > 0 && c.Verb != "Watch" && !backoff.Wait(ctx, slow) {
		return zero, fmt.Errorf("%s %s: %w", c.Verb, c.Key, context.Cause(ctx))
	}
	state := store.ErrUnavailable
	if c.Writes() {
		state = store.ErrUnknownOutcome
	}
	switch fault {
	case None:
		return f(ctx)
	case Refuse:
		return zero, fmt.Errorf("%s %s: %w: by fault", c.Verb, c.Key, store.ErrUnavailable)
	case LoseAnswer:
		_, _ = f(ctx)
	case Delay:
		if c.Writes() {
			k.mu.Lock()
			k.late = append(k.late, func() { _, _ = f(context.WithoutCancel(ctx)) })
			k.mu.Unlock()
		}
	}
	return zero, fmt.Errorf("%s %s: %w: by fault", c.Verb, c.Key, state)
}

// Get implements store.KV.
func (k *KV) Get(ctx context.Context, key string) (store.Pair, error) {
	return run(k, ctx, Call{Verb: "Get", Key: key}, func(ctx context.Context) (store.Pair, error) {
		return k.inner.Get(ctx, key)
	})
}

type listed struct {
	pairs []store.Pair
	index uint64
}

// List implements store.KV.
func (k *KV) List(ctx context.Context, prefix string, mode store.ReadMode) ([]store.Pair, uint64, error) {
	l, err := run(k, ctx, Call{Verb: "List", Key: prefix}, func(ctx context.Context) (l listed, err error) {
		l.pairs, l.index, err = k.inner.List(ctx, prefix, mode)
		return l, err
	})
	return l.pairs, l.index, err
}

// Keys implements store.KV.
func (k *KV) Keys(ctx context.Context, prefix string) ([]string, error) {
	return run(k, ctx, Call{Verb: "Keys", Key: prefix}, func(ctx context.Context) ([]string, error) {
		return k.inner.Keys(ctx, prefix)
	})
}

// Txn implements store.KV.
func (k *KV) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	return run(k, ctx, Call{Verb: "Txn", Ops: ops}, func(ctx context.Context) ([]store.Pair, error) {
		return k.inner.Txn(ctx, ops)
	})
}

// Watch implements store.KV.
func (k *KV) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	k.mu.Lock()
	connection := k.watch
	k.mu.Unlock()
	l, err := run(k, ctx, Call{Verb: "Watch", Key: prefix}, func(ctx context.Context) (l listed, err error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(connection, func() { cancel(context.Cause(connection)) })()
		l.pairs, l.index, err = k.inner.Watch(ctx, prefix, after)
		return l, err
	})
	return l.pairs, l.index, err
}

// NewSession implements store.KV.
func (k *KV) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	return run(k, ctx, Call{Verb: "NewSession", Key: name}, func(ctx context.Context) (string, error) {
		return k.inner.NewSession(ctx, name, ttl)
	})
}

// Renew implements store.KV.
func (k *KV) Renew(ctx context.Context, session string) error {
	_, err := run(k, ctx, Call{Verb: "Renew", Key: session}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, k.inner.Renew(ctx, session)
	})
	return err
}

// Destroy implements store.KV.
func (k *KV) Destroy(ctx context.Context, session string) error {
	_, err := run(k, ctx, Call{Verb: "Destroy", Key: session}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, k.inner.Destroy(ctx, session)
	})
	return err
}

// Session implements store.KV.
func (k *KV) Session(ctx context.Context, session string) (bool, error) {
	return run(k, ctx, Call{Verb: "Session", Key: session}, func(ctx context.Context) (bool, error) {
		return k.inner.Session(ctx, session)
	})
}

// Close ends watches and refuses further calls. The caller that opened the wrapped store closes it.
func (k *KV) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.broken(store.ErrClosed)
	return nil
}
