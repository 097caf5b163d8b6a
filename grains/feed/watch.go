package feed

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/items"
)

var _ = raysys.Register[*MissedError]("feed.MissedError")

// MissedError says that a watcher has not seen all. The loop goes on.
type MissedError struct {
	// N is how many items were dropped before the watcher asked for them; 0 where that is not known, since the grain was activated anew.
	N int
}

func (e *MissedError) Error() string {
	if e.N == 0 {
		return "feed: the grain was activated anew: what it emitted before is lost"
	}
	return fmt.Sprintf("feed: %d items were dropped before the watcher asked for them", e.N)
}

// Option changes a loop.
type Option func(*ask)

// Last begins with the last n items that the feed has: 1,000 at most, and 16 MiB.
func Last(n int) Option { return func(a *ask) { a.Last = n } }

// Watch is the way to a feed of the grains of kind G. Make it once, in a package variable, with Method.
type Watch[G, T any] struct {
	_ [0]*T
	f grains.Func[G, ask, answer]
}

// Method makes the feed that pick returns watchable under name. A bad definition is reported by system.New.
func Method[G, T any](k grains.Kind[G], name string, pick func(*G) *Feed[T]) Watch[G, T] {
	var fn func(*G, context.Context, ask, *grains.Later[answer]) error
	if pick != nil {
		most := grains.MailboxOf(k) / 2
		fn = func(g *G, _ context.Context, a ask, l *grains.Later[answer]) error {
			return pick(g).f.watch(most, a, l)
		}
	}
	return Watch[G, T]{f: grains.LaterMethod(k, name, fn).Idempotent().With(raysys.NoDeadline())}
}

// All is what the grain emits from now on. A *MissedError says that something is missing, and the loop goes on. Any other error is the last
// element.
func (w Watch[G, T]) All(ctx context.Context, g grains.Grain[G], opts ...Option) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		codec, err := items.CodecOf(reflect.TypeFor[T]())
		call := func(a ask) (answer, error) { return w.f.Call(ctx, g, a).Get(ctx) }
		if err == nil {
			err = all(opts, call, func(c items.Chunk, i int, err error) bool {
				var v T
				if err == nil {
					err = codec.Decode(c, i, unsafe.Pointer(&v))
				}
				return yield(v, err)
			})
		}
		if err != nil {
			var none T
			yield(none, fmt.Errorf("watch %v: %w", g, err))
		}
	}
}

// all gives items to f until that returns false, or an ask fails.
func all(opts []Option, call func(ask) (answer, error), f func(c items.Chunk, i int, err error) bool) error {
	a := ask{}
	for _, o := range opts {
		if o == nil {
			return fmt.Errorf("%w: nil Option", raysys.ErrBadOption)
		}
		o(&a)
	}
	if a.Last < 0 {
		return fmt.Errorf("%w: feed.Last(%d): give 0 or more", raysys.ErrBadOption, a.Last)
	}
	for {
		r, err := call(a)
		if err == nil {
			err = r.Items.Check()
		}
		if err != nil {
			return err
		}
		var missed *MissedError
		switch {
		case a.Run == 0:
		case a.Run != r.Run:
			missed = &MissedError{}
		case r.First > a.From:
			missed = &MissedError{N: int(r.First - a.From)}
		}
		if missed != nil && !f(items.Chunk{}, 0, missed) {
			return nil
		}
		for i := range r.Items.Len() {
			if !f(r.Items, i, nil) {
				return nil
			}
		}
		a = ask{Run: r.Run, From: r.Next}
	}
}
