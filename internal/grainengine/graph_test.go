package grainengine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// step is one submission of a random program: a call on the grain Key, or a task where Key is empty, which in turn
// runs Then. Wait says whether the one who submits gets the result: at once, after all submissions, or never.
type step struct {
	Key  string
	Wait int
	Then []step
}

const (
	never = iota
	atOnce
	atEnd
)

// drawSteps draws a program over the keys from low on. Where rising holds, a grain calls later keys only, so that no
// cycle is possible.
func drawSteps(rt *rapid.T, keys, low, depth int, rising bool) (steps []step) {
	if depth == 0 {
		return nil
	}
	for range rapid.IntRange(0, 3).Draw(rt, "calls") {
		s := step{Wait: rapid.IntRange(never, atEnd).Draw(rt, "wait")}
		next := low
		if k := rapid.IntRange(low-1, keys-1).Draw(rt, "key"); k >= low {
			s.Key = string(rune('a' + k))
			if rising {
				next = k + 1
			}
		}
		s.Then = drawSteps(rt, keys, next, depth-1, rising)
		steps = append(steps, s)
	}
	return steps
}

// programs runs them. Every future it makes ends up in refs.
type programs struct {
	table  *raysys.Table
	kind   grains.Kind[cell]
	method grains.Func[cell, string, int]
	task   tasks.Task[string, int]
	prefix string // of keys, so that each program has grains of its own

	mu   sync.Mutex // guards refs
	refs []raysys.Ref[int]
}

func newPrograms(opts ...grains.Option) *programs {
	tb := raysys.NewTable()
	p := &programs{table: tb, kind: grains.DefineIn[cell](tb, "g", opts...)}
	p.method = grains.Method(p.kind, "run", func(c *cell, ctx context.Context, program string) (int, error) {
		c.n++
		n, err := p.run(ctx, program)
		c.n++
		return n, err
	})
	p.task = tasks.DefineIn(tb, "run", p.run)
	return p
}

func (p *programs) submit(ctx context.Context, s step) raysys.Ref[int] {
	b, err := json.Marshal(s.Then)
	if err != nil {
		return raysys.Ref[int](core.FailedRef[int](err))
	}
	var r raysys.Ref[int]
	if s.Key == "" {
		r = p.task.Go(ctx, string(b))
	} else {
		r = p.method.Call(ctx, p.kind.Get(p.prefix+s.Key), string(b))
	}
	p.mu.Lock()
	p.refs = append(p.refs, r)
	p.mu.Unlock()
	return r
}

func (p *programs) run(ctx context.Context, program string) (n int, err error) {
	var steps []step
	if err := json.Unmarshal([]byte(program), &steps); err != nil {
		return 0, err
	}
	var late []raysys.Ref[int]
	for _, s := range steps {
		r := p.submit(ctx, s)
		switch s.Wait {
		case atOnce:
			if _, e := r.Get(ctx); e != nil {
				err = e
			}
		case atEnd:
			late = append(late, r)
		}
	}
	for _, o := range raysys.GetAll(ctx, late) {
		if o.Err != nil {
			err = o.Err
		}
	}
	return len(steps), err
}

// bubble is a test in virtual time, where asking for the deadline panics.
type bubble struct{ *testing.T }

func (bubble) Deadline() (time.Time, bool) { return time.Time{}, false }

// TestRandomCallGraphs: every call of a random program ends without its deadline; what cannot be a cycle, or is
// declared reentrant, is never refused.
func TestRandomCallGraphs(t *testing.T) {
	for name, c := range map[string]struct {
		rising, refused bool
		opts            []grains.Option
	}{
		"any":       {refused: true},
		"acyclic":   {rising: true},
		"reentrant": {opts: []grains.Option{grains.Reentrant()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPrograms(c.opts...)
				ctx := nodetest.Driver(t, p.table)
				refused := 0
				rapid.Check(bubble{t}, func(rt *rapid.T) {
					p.prefix = fmt.Sprint(serial.Add(1))
					begin := time.Now()
					var roots []step
					for range rapid.IntRange(1, 3).Draw(rt, "roots") {
						roots = append(roots, drawSteps(rt, 4, 0, 4, c.rising)...)
					}
					for _, s := range roots {
						p.submit(ctx, s)
					}
					synctest.Wait()
					p.mu.Lock()
					refs := p.refs
					p.refs = nil
					p.mu.Unlock()
					for _, r := range refs {
						_, err := r.Get(ctx)
						switch {
						case err == nil:
						case !errors.Is(err, raysys.ErrCycle):
							rt.Errorf("a call ended with %v", err)
						case !c.refused:
							rt.Errorf("refused: %v", err)
						default:
							refused++
						}
					}
					if d := time.Since(begin); d != 0 {
						rt.Errorf("%v of virtual time went by: something hung", d)
					}
				})
				if c.refused && refused == 0 {
					t.Error("no program had a cycle: the test shows nothing")
				}
			})
		})
	}
}
