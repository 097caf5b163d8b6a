package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// hop is one submission of a program: a call on the grain Key, or a task where Key is empty, which in turn runs Then. Wait
// says when the one who submits gets the result.
type hop struct {
	Key  string `json:",omitempty"`
	Task int    `json:",omitempty"` // of a task: where it runs when the program is spread
	Wait int    `json:",omitempty"`
	Rest int    `json:",omitempty"` // milliseconds that the one who submits rests instead
	Then []hop  `json:",omitempty"`
}

const (
	atOnce = iota
	atEnd
	oneOf // one of those with this is enough
	never
)

// chains runs programs, and returns what became of each hop in words.
type chains struct {
	table *raysys.Table
	kind  grains.Kind[chainCell]
	run   grains.Func[chainCell, order, string]
	touch grains.Func0[chainCell, int]
	task  tasks.Task[order, string]
	runs  int
}

type chainCell struct{}

// order is a program as it travels.
type order struct {
	Prefix string // of keys, so that each run has grains of its own
	Spread bool
	Hops   string
}

func newChains(opts ...grains.Option) *chains {
	tb := raysys.NewTable()
	p := &chains{table: tb, kind: grains.DefineIn[chainCell](tb, "c", opts...)}
	p.touch = grains.Method0(p.kind, "touch", func(*chainCell, context.Context) (int, error) { return 0, nil })
	p.run = grains.Method(p.kind, "run", func(_ *chainCell, ctx context.Context, o order) (string, error) { return p.perform(ctx, o) })
	p.task = tasks.DefineIn(tb, "errand", p.perform)
	return p
}

func (p *chains) submit(ctx context.Context, o order, h hop) raysys.Ref[string] {
	b, err := json.Marshal(h.Then)
	if err != nil {
		return raysys.Ref[string](core.FailedRef[string](err))
	}
	next := order{o.Prefix, o.Spread, string(b)}
	if h.Key != "" {
		return p.run.Call(ctx, p.kind.Get(o.Prefix+h.Key), next)
	}
	node := 1
	if o.Spread {
		node = 1 + h.Task%3
	}
	return p.task.With(onNode(node)).Go(ctx, next)
}

func onNode(i int) raysys.Option { return raysys.Label("node", fmt.Sprint("n", i)) }

// outcome is how a hop ended, in words.
func outcome(h hop, s string, err error) string {
	name := h.Key
	if name == "" {
		name = "task"
	}
	switch {
	case errors.Is(err, raysys.ErrCycle):
		return name + "=cycle"
	case err != nil:
		return name + "=" + err.Error()
	}
	return name + "(" + s + ")"
}

func (p *chains) perform(ctx context.Context, o order) (string, error) {
	var hops []hop
	if err := json.Unmarshal([]byte(o.Hops), &hops); err != nil {
		return "", err
	}
	words := make([]string, len(hops))
	var late, some []int
	refs := make([]raysys.Ref[string], len(hops))
	for i, h := range hops {
		if h.Rest > 0 {
			<-time.After(time.Duration(h.Rest) * time.Millisecond)
			continue
		}
		refs[i] = p.submit(ctx, o, h)
		switch h.Wait {
		case atOnce:
			s, err := refs[i].Get(ctx)
			words[i] = outcome(h, s, err)
		case atEnd:
			late = append(late, i)
		case oneOf:
			some = append(some, i)
		case never:
			words[i] = "told"
		}
	}
	if len(some) > 0 {
		var list []raysys.Ref[string]
		for _, i := range some {
			list = append(list, refs[i])
			words[i] = "either"
		}
		ready, _, err := raysys.Wait(ctx, list, 1)
		if err == nil {
			_, err = ready[0].Get(ctx)
		}
		words[some[0]] = outcome(hop{Key: "one"}, "", err)
	}
	for _, i := range late {
		s, err := refs[i].Get(ctx)
		words[i] = outcome(hops[i], s, err)
	}
	return strings.Join(words, " "), nil
}

// put places a grain. The leader of its shard may have no connection to the node yet.
func (p *chains) put(ctx context.Context, key string, node int) (err error) {
	for range 100 {
		if _, err = p.touch.With(onNode(node)).Call(ctx, p.kind.Get(key)).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
	return err
}

// play runs hops by the driver, with the grains together on n1 or spread, and returns the outcomes, and how long it took.
func (p *chains) play(ctx context.Context, spread bool, hops []hop) (string, time.Duration) {
	p.runs++
	o := order{Prefix: fmt.Sprint(p.runs, "/"), Spread: spread}
	for i, key := range []string{"a", "b", "c", "d"} {
		node := 1
		if spread {
			node = 1 + i%3
		}
		if err := p.put(ctx, o.Prefix+key, node); err != nil {
			return err.Error(), 0
		}
	}
	b, err := json.Marshal(hops)
	if err != nil {
		return err.Error(), 0
	}
	o.Hops = string(b)
	begin := time.Now()
	s, err := p.perform(ctx, o)
	if err != nil {
		return err.Error(), 0
	}
	return s, time.Since(begin)
}

// looks is how long a cycle over several nodes stays unseen at most: a call that came back asks at once whether it closes
// one, and again after pauses of 1 ms to 4 s, each four times the one before. The deadline of a call is 30 s. On an idle
// machine the first questions find it, which the long form wants.
const looks = 6 * time.Second

// kit runs f with three workers in virtual time.
func (p *chains) kit(t *testing.T, f func(k *testkit.Kit)) {
	t.Helper()
	testkit.Virtual(t, f, testkit.Nodes(3), testkit.Table(p.table), testkit.Each(func(i int, cfg *system.Config) {
		cfg.Cluster.Labels = map[string]string{"node": fmt.Sprint("n", i)}
	}))
}

func call(key string, then ...hop) hop { return hop{Key: key, Then: then} }
func task(on int, then ...hop) hop     { return hop{Task: on, Then: then} }
func (h hop) wait(w int) hop           { h.Wait = w; return h }

// TestChainsOverNodes (rule C5): what a chain of calls comes to does not depend on where its grains are.
func TestChainsOverNodes(t *testing.T) {
	for _, c := range []struct {
		name      string
		hops      []hop
		want      string
		reentrant string // what it is where the kind is
	}{
		{"to itself", []hop{call("a", call("a"))}, "a(a=cycle)", "a(a())"},
		{"there and back", []hop{call("a", call("b", call("a")))}, "a(b(a=cycle))", "a(b(a()))"},
		{"three nodes", []hop{call("a", call("b", call("c", call("a"))))}, "a(b(c(a=cycle)))", "a(b(c(a())))"},
		{"tail", []hop{call("d", call("c", call("a", call("b", call("a")))))}, "d(c(a(b(a=cycle))))", "d(c(a(b(a()))))"},
		{"no cycle", []hop{call("a", call("b", call("c"))), call("c", call("b", call("a")))}, "a(b(c())) c(b(a()))", "a(b(c())) c(b(a()))"},
		{"through a task", []hop{call("a", task(1, call("a")))}, "a(task(a=cycle))", "a(task(a()))"},
		{"through tasks and grains", []hop{call("a", task(1, call("b", task(2, call("c", call("a"))))))}, "a(task(b(task(c(a=cycle)))))", "a(task(b(task(c(a())))))"},
		{"a task that is not waited for", []hop{call("a", task(1, call("a")).wait(never))}, "a(told)", "a(told)"},
		{"a task that is waited for in the end", []hop{call("a", task(1, call("a")).wait(atEnd))}, "a(task(a=cycle))", "a(task(a()))"},
		{"told while it waits", []hop{call("a", call("b", call("a").wait(never)))}, "a(b(told))", "a(b(told))"},
		{"two ways back", []hop{call("a", call("b", call("a").wait(atEnd), call("a").wait(atEnd)))}, "a(b(a=cycle a=cycle))", "a(b(a() a()))"},
		{"one of two is enough", []hop{call("a", call("b").wait(oneOf), call("a").wait(oneOf))}, "a(one() either)", "a(one() either)"},
		{"one of two far ways", []hop{call("a", call("b", call("a")).wait(oneOf), call("c").wait(oneOf))}, "a(one() either)", "a(one() either)"},
		{"neither of two", []hop{call("a", call("b", call("a").wait(oneOf), call("a").wait(oneOf)))}, "a(b(one=cycle either))", "a(b(one() either))"},
	} {
		for kind, opts := range map[string][]grains.Option{"plain": nil, "reentrant": {grains.Reentrant()}} {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				p := newChains(opts...)
				want := c.want
				if opts != nil {
					want = c.reentrant
				}
				p.kit(t, func(k *testkit.Kit) {
					for _, spread := range []bool{false, true} {
						got, took := p.play(k.Context(), spread, c.hops)
						if got != want {
							k.T().Errorf("spread %v: %s, want %s", spread, got, want)
						}
						if took > long.Form(looks, 10*time.Millisecond) {
							k.T().Errorf("spread %v: it took %v of virtual time: a chain that comes back is decided at once", spread, took)
						}
					}
				})
			})
		}
	}
}

// TestChainNamesTurns: the refusal has the whole chain, also of turns on other nodes.
func TestChainNamesTurns(t *testing.T) {
	p := newChains()
	relay := func(h grains.Func[chainCell, []string, int], ctx context.Context, keys []string) (int, error) {
		if len(keys) == 0 {
			return 0, nil
		}
		return h.Call(ctx, p.kind.Get(keys[0]), keys[1:]).Get(ctx)
	}
	var hopOn grains.Func[chainCell, []string, int]
	hopOn = grains.Method(p.kind, "hop", func(_ *chainCell, ctx context.Context, keys []string) (int, error) { return relay(hopOn, ctx, keys) })
	p.kit(t, func(k *testkit.Kit) {
		ctx := k.Context()
		for i, key := range []string{"a", "b", "c"} {
			if err := p.put(ctx, key, i+1); err != nil {
				k.T().Fatal(err)
			}
		}
		_, failed := relay(hopOn, ctx, []string{"a", "b", "c", "a"})
		var ce *raysys.CycleError
		if !errors.Is(failed, raysys.ErrCycle) || !errors.As(failed, &ce) {
			k.T().Fatalf("%v, want a cycle", failed)
		}
		if got, want := strings.Join(ce.Chain, " -> "), "c/a.hop -> c/b.hop -> c/c.hop -> c/a.hop"; got != want {
			k.T().Errorf("the chain is %s, want %s", got, want)
		}
	})
}

// TestCrossedCalls: two grains that call each other at the same time. Somebody gives way, well before the deadline: one call
// is refused, and where the kind is reentrant none is.
func TestCrossedCalls(t *testing.T) {
	for kind, opts := range map[string][]grains.Option{"plain": nil, "reentrant": {grains.Reentrant()}} {
		t.Run(kind, func(t *testing.T) {
			p := newChains(opts...)
			p.kit(t, func(k *testkit.Kit) {
				for _, spread := range []bool{false, true} {
					got, took := p.play(k.Context(), spread, []hop{
						call("a", hop{Rest: 20}, call("b")).wait(atEnd), call("b", hop{Rest: 20}, call("a")).wait(atEnd),
					})
					if took > long.Form(looks, 500*time.Millisecond) || strings.Contains(got, "deadline") {
						k.T().Errorf("spread %v: %s after %v", spread, got, took)
					}
					if opts != nil && strings.Contains(got, "cycle") {
						k.T().Errorf("spread %v: %s: a reentrant call was refused", spread, got)
					}
				}
			})
		})
	}
}

// TestArgumentThatCallsBack: a turn waits for a reference that it was given, whose producer, on a third node, calls it.
func TestArgumentThatCallsBack(t *testing.T) {
	p := newChains()
	await := grains.Method(p.kind, "await", func(_ *chainCell, ctx context.Context, r raysys.Handle[string]) (string, error) {
		return r.Ref().Get(ctx)
	})
	p.kit(t, func(k *testkit.Kit) {
		ctx := k.Context()
		for _, at := range []int{1, 2} {
			o := order{Prefix: fmt.Sprint("arg", at, "/"), Spread: true, Hops: `[{"Rest":20},{"Key":"a"}]`}
			a := p.kind.Get(o.Prefix + "a")
			if err := p.put(ctx, a.ID().Key, 1); err != nil {
				k.T().Fatal(err)
			}
			begin := time.Now()
			r := p.task.With(onNode(at)).Go(ctx, o) // the turn waits before it calls
			got, err := await.Call(ctx, a, r.Handle()).Get(ctx)
			if took := time.Since(begin); got != " a=cycle" || took > long.Form(looks, 500*time.Millisecond) {
				k.T().Errorf("task on n%d: %q %v after %v, want a=cycle", at, got, err, took)
			}
		}
	})
}

// TestRandomChainsOverNodes: programs that wait for each call at once come to the same on one node and on three; others end
// before their deadline, with no refusal where no cycle is possible.
func TestRandomChainsOverNodes(t *testing.T) {
	var draw func(rt *rapid.T, depth int, wait func() int) []hop
	draw = func(rt *rapid.T, depth int, wait func() int) (hops []hop) {
		if depth == 0 {
			return nil
		}
		for range rapid.IntRange(0, 2).Draw(rt, "calls") {
			h := hop{Wait: wait()}
			if i := rapid.IntRange(0, 4).Draw(rt, "key"); i < 4 {
				h.Key = string(rune('a' + i))
			} else {
				h.Task = rapid.IntRange(0, 2).Draw(rt, "node")
			}
			h.Then = draw(rt, depth-1, wait)
			hops = append(hops, h)
		}
		return hops
	}
	for kind, opts := range map[string][]grains.Option{"plain": nil, "reentrant": {grains.Reentrant()}} {
		t.Run(kind, func(t *testing.T) {
			p := newChains(opts...)
			p.kit(t, func(k *testkit.Kit) {
				rapid.Check(timeless{k.T()}, func(rt *rapid.T) {
					hops := draw(rt, 4, func() int { return atOnce })
					one, _ := p.play(k.Context(), false, hops)
					three, took := p.play(k.Context(), true, hops)
					if one != three || took > long.Form(looks, 10*time.Millisecond) {
						rt.Errorf("on one node %s, on three %s after %v", one, three, took)
					}
					hops = draw(rt, 4, func() int { return rapid.IntRange(atOnce, never).Draw(rt, "wait") })
					got, took := p.play(k.Context(), true, hops)
					if strings.Contains(got, "deadline") || took > long.Form(30*time.Second, 10*time.Second) { // the deadline of a call
						rt.Errorf("%s after %v: something was left to its deadline", got, took)
					}
					if opts != nil && strings.Contains(got, "cycle") {
						rt.Errorf("%s: a reentrant kind was refused", got)
					}
				})
			})
		})
	}
}

// timeless is a test in virtual time, where asking for the deadline panics.
type timeless struct{ testing.TB }

func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }
