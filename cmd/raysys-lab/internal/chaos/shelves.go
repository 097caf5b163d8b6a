package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// errGone: the grain has no such reference, because what it had in memory went with an earlier activation.
var (
	errGone = errors.New("the grain holds no such reference")
	_       = raysys.RegisterError("chaos.gone", errGone)

	errWrongBytes = errors.New("wrong bytes")
	_             = raysys.RegisterError("chaos.wrong-bytes", errWrongBytes)
)

// entry is a reference on its way to a shelf.
type entry struct {
	Number int
	Ref    raysys.Handle[[]byte]
}

// move asks a shelf to give a reference to another.
type move struct {
	Number int
	To     string
}

// shelf holds references in memory; stored holds one in a State.
type (
	shelf  struct{ held map[int]raysys.Ref[[]byte] }
	stored struct{ held grains.State[entry] }
)

// Keep holds a reference from now on.
func (s *shelf) Keep(_ context.Context, e entry) (bool, error) {
	if s.held == nil {
		s.held = map[int]raysys.Ref[[]byte]{}
	}
	s.held[e.Number] = e.Ref.Ref()
	return true, nil
}

// Sum reads what a reference refers to.
func (s *shelf) Sum(ctx context.Context, number int) (uint32, error) {
	ref, ok := s.held[number]
	if !ok {
		return 0, errGone
	}
	b, err := ref.Get(ctx)
	return crc32.ChecksumIEEE(b), err
}

// Drop lets go of a reference, or of all below 0.
func (s *shelf) Drop(_ context.Context, number int) (bool, error) {
	for n, ref := range s.held {
		if n == number || number < 0 {
			ref.Release()
			delete(s.held, n)
		}
	}
	return true, nil
}

// Keep holds the reference in place of the former one.
func (s *stored) Keep(ctx context.Context, e entry) (bool, error) {
	s.held.Value = e
	return true, s.held.Write(ctx)
}

// Sum reads what the reference refers to, and says which it is.
func (s *stored) Sum(ctx context.Context) (found, error) {
	if !s.held.Exists() {
		return found{}, errGone
	}
	b, err := s.held.Value.Ref.Ref().Get(ctx)
	return found{s.held.Value.Number, crc32.ChecksumIEEE(b)}, err
}

// Drop lets go of it.
func (s *stored) Drop(ctx context.Context) (bool, error) { return true, s.held.Clear(ctx) }

type found struct {
	Number int
	Sum    uint32
}

// shelves are references that grains hold in memory and in States, give to each other and let go of, while the nodes die on
// which they and the objects are: while no node ended, each is good, and in the end none is left.
func shelves(tb *raysys.Table) workload {
	const name, keys = "shelves", 10
	kind := grains.DefineIn[shelf](tb, "chaos.shelf")
	keep := grains.Method(kind, "keep", (*shelf).Keep)
	sum := grains.Method(kind, "sum", (*shelf).Sum)
	drop := grains.Method(kind, "drop", (*shelf).Drop)
	give := grains.Method(kind, "give", func(s *shelf, ctx context.Context, m move) (bool, error) {
		ref, ok := s.held[m.Number]
		if !ok {
			return false, errGone
		}
		// No Release: a shelf of the same node would hold the same future.
		if _, err := keep.Call(ctx, kind.Get(m.To), entry{m.Number, ref.Handle()}).Get(ctx); err != nil {
			return false, err
		}
		delete(s.held, m.Number)
		return true, nil
	})
	inState := grains.DefineIn[stored](tb, "chaos.stored")
	storeIt := grains.Method(inState, "keep", (*stored).Keep)
	sumStored := grains.Method0(inState, "sum", (*stored).Sum)
	clear := grains.Method0(inState, "drop", (*stored).Drop)
	key := func(c *client) string { return fmt.Sprint(c.rng.IntN(keys)) }

	var mu sync.Mutex // guards the rest
	last := 0
	blobs := map[int]blob{}
	// inMemory takes a new object over some shelves.
	inMemory := func(c *client, ctx context.Context, e *entry, b blob) {
		at := key(c)
		a := c.begin(ctx, "reference %d to %+v on shelf %s", e.Number, b, at)
		_, err := keep.Call(ctx, kind.Get(at), *e).Get(ctx)
		if err != nil {
			c.judge(a, err, false)
			return
		}
		for range c.rng.IntN(3) {
			if to := key(c); to < at { // so that no two shelves wait for each other
				if _, err = give.Call(ctx, kind.Get(at), move{e.Number, to}).Get(ctx); err != nil {
					break
				}
				a.what += ", then " + to
				at = to
			}
		}
		// The grain alone holds it from here on, and its owner is told to free what nobody else counts.
		number := e.Number
		*e = entry{}
		if c.rng.IntN(4) == 0 {
			runtime.GC()
		}
		_ = nap(ctx, time.Duration(c.rng.IntN(3000))*time.Millisecond)
		var got uint32
		if err == nil {
			got, err = sum.Call(ctx, kind.Get(at), number).Get(ctx)
		}
		c.judge(a, err, false, errGone)
		if err == nil && got != b.sum() {
			c.violate(name, "an object's bytes are its own", "%s has checksum %x, want %x", a.what, got, b.sum())
		}
		if c.rng.IntN(3) > 0 {
			a := c.begin(ctx, "drop reference %d from shelf %s", number, at)
			_, err := drop.Call(ctx, kind.Get(at), number).Get(ctx)
			c.judge(a, err, false)
		}
	}
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, r.on.Size()+1, 4*thinkTime, func(c *client, ctx context.Context) {
				b := blob{byte(c.rng.Uint32()), c.rng.IntN(150_000)}
				mu.Lock()
				last++
				number := last
				blobs[number] = b
				mu.Unlock()
				e := entry{number, raysys.Put(ctx, b.make(), raysys.Replicas(1+c.rng.IntN(2))).Handle()}
				if c.rng.IntN(3) > 0 {
					inMemory(c, ctx, &e, b)
					return
				}
				at := key(c)
				a := c.begin(ctx, "reference %d to %+v in State %s", number, b, at)
				_, err := storeIt.Call(ctx, inState.Get(at), e).Get(ctx)
				var got found
				if err == nil {
					got, err = sumStored.Call(ctx, inState.Get(at)).Get(ctx)
				}
				c.judge(a, err, false, grains.ErrETag)
				mu.Lock()
				want := blobs[got.Number]
				mu.Unlock()
				if err == nil && got.Sum != want.sum() {
					c.violate(name, "an object's bytes are its own", "%s: it has reference %d with checksum %x, want %x", a.what, got.Number, got.Sum, want.sum())
				}
			})
		},
		end: func(r *round) {
			c := &client{round: r, workload: name}
			ctx, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
			defer cancel()
			for i := range keys {
				a := c.begin(ctx, "clear shelf and State %d", i)
				_, err1 := drop.Call(ctx, kind.Get(fmt.Sprint(i)), -1).Get(ctx)
				_, err2 := clear.Call(ctx, inState.Get(fmt.Sprint(i))).Get(ctx)
				a.end(errors.Join(err1, err2))
			}
		},
	}
}
