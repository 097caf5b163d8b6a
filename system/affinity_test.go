package system_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// resident is a grain that says where it is.
type resident struct{}

func (*resident) Where(ctx context.Context) (raysys.NodeID, error) {
	return system.NodeOf(ctx).Name(), nil
}

func (*resident) Leave(ctx context.Context) error { return grains.Deactivate(ctx) }

var (
	residents     = grains.DefineIn[resident](table, "resident")
	residentWhere = grains.Method0(residents, "where", (*resident).Where)
	residentLeave = grains.Action0(residents, "leave", (*resident).Leave)
	affinityFails = tasks.Define0In(table, "affinity.fails", func(context.Context) (int, error) { return 0, errShort })
)

// zones are workers a, b and c of two CPUs and a driver: a and b are in zones, and b is a spot instance.
func zones(b *bubble) (workers map[raysys.NodeID]*system.Node, ctx context.Context) {
	workers = map[raysys.NodeID]*system.Node{}
	labels := map[raysys.NodeID]map[string]string{"a": {"zone": "east"}, "b": {"zone": "west", "spot": ""}, "c": {"zone": "north"}}
	for _, name := range []raysys.NodeID{"a", "b", "c"} {
		workers[name], _ = b.join(name, system.Worker, twoCPUs, func(c *system.Config) { c.Cluster.Labels = labels[name] })
	}
	_, ctx = b.join("d", system.Driver)
	<-time.After(time.Second) // of the bubble: the nodes have told their loads
	return workers, ctx
}

// TestNearWhatSettles: a task that is to be near a value goes there also when the value settles while the task is placed.
func TestNearWhatSettles(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		for k := range 300 {
			object := makeBytes.With(raysys.OnNode("b")).Go(ctx, 1<<17)
			var near []raysys.Ref[raysys.NodeID]
			for range 8 {
				near = append(near, groupWhere.With(raysys.Near(object)).Go(ctx, k))
			}
			for _, r := range near {
				if at, err := r.Get(ctx); at != "b" || err != nil {
					t.Fatalf("round %d: a task near a value of b is on %q, %v", k, at, err)
				}
			}
		}
	})
}

// TestConditions: a task, and a grain that is not active, go to the nodes that their conditions mean, whatever is asked for how often.
func TestConditions(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		object := makeBytes.With(raysys.OnNode("b")).Go(ctx, 1<<20)
		late := makeBytes.With(raysys.OnNode("c")).On(ctx, affinitySlow.Go(ctx, 1<<20)) // not computed yet
		small := affinitySlow.With(raysys.OnNode("c")).Go(ctx, 7)
		alice, nobody := residents.Get("alice"), residents.Get("nobody")
		if at, err := residentWhere.With(raysys.OnNode("c")).Call(ctx, alice).Get(ctx); at != "c" || err != nil {
			t.Fatalf("a grain on c is on %s, %v", at, err)
		}
		for _, c := range []struct {
			name  string
			by    []raysys.Option
			nodes string // on one of which it is to be
		}{
			{"a node", []raysys.Option{raysys.OnNode("b")}, "b"},
			{"the last of several", []raysys.Option{raysys.OnNode("b"), raysys.OnNode("a", "x")}, "a"},
			{"not a node", []raysys.Option{raysys.Not(raysys.OnNode("a", "c"))}, "b"},
			{"none of several", []raysys.Option{raysys.Not(raysys.OnNode("a"), raysys.Label("zone", "west"))}, "c"},
			{"a label", []raysys.Option{raysys.Label("zone", "north")}, "c"},
			{"one of its values", []raysys.Option{raysys.Label("zone", "east", "north")}, "a c"},
			{"the last of one label", []raysys.Option{raysys.Label("zone", "east", "north"), raysys.Label("zone", "west")}, "b"},
			{"any value", []raysys.Option{raysys.Label("spot")}, "b"},
			{"without a label", []raysys.Option{raysys.Not(raysys.Label("spot"))}, "a c"},
			{"without a value", []raysys.Option{raysys.Not(raysys.Label("zone", "west"))}, "a c"},
			{"a value", []raysys.Option{raysys.Near(object)}, "b"},
			{"not a value", []raysys.Option{raysys.Not(raysys.Near(object))}, "a c"},
			{"a value to come", []raysys.Option{raysys.Near(late)}, "c"},
			{"not a value to come", []raysys.Option{raysys.Not(raysys.Near(late))}, "a b"},
			{"a value that travels along", []raysys.Option{raysys.Near(small), raysys.OnNode("a")}, "a"},
			{"a grain", []raysys.Option{grains.Near(alice)}, "c"},
			{"not a grain", []raysys.Option{raysys.Not(grains.Near(alice))}, "a b"},
			{"not a grain that is not active", []raysys.Option{raysys.Not(grains.Near(nobody)), raysys.OnNode("b")}, "b"},
			{"several", []raysys.Option{raysys.Not(grains.Near(alice)), raysys.Not(raysys.Near(object))}, "a"},
			{"a preference", []raysys.Option{raysys.Prefer(raysys.OnNode("b"))}, "b"},
			{"a preference for a grain", []raysys.Option{raysys.Prefer(grains.Near(alice))}, "c"},
			{"a preference for a value", []raysys.Option{raysys.Prefer(raysys.Near(object))}, "b"},
			{"the first of two preferences", []raysys.Option{raysys.Prefer(raysys.OnNode("b")), raysys.Prefer(raysys.OnNode("c"))}, "b"},
			{"a preference beside a condition", []raysys.Option{raysys.Not(raysys.OnNode("b")), raysys.Prefer(raysys.OnNode("b"), raysys.Not(raysys.OnNode("a")))}, "c"},
			{"with a strategy", []raysys.Option{raysys.Placement(raysys.Spread), raysys.Not(grains.Near(alice))}, "a b"},
			{"where the driver asks", []raysys.Option{raysys.Placement(raysys.PreferLocal), raysys.Not(raysys.OnNode("b", "c"))}, "a"},
		} {
			where, call := groupWhere.With(c.by...), residentWhere.With(c.by...)
			for k := range 6 {
				at, err := where.Go(ctx, k).Get(ctx)
				if !slices.Contains(strings.Fields(c.nodes), string(at)) || err != nil {
					t.Errorf("%s: a task is on %q, %v; not on %s", c.name, at, err, c.nodes)
				}
				key := c.name + string(rune('0'+k))
				if at, err = call.Call(ctx, residents.Get(key)).Get(ctx); !slices.Contains(strings.Fields(c.nodes), string(at)) || err != nil {
					t.Errorf("%s: a grain is on %q, %v; not on %s", c.name, at, err, c.nodes)
				}
			}
		}
		// PreferLocal of a worker gives way to a label and a condition.
		for _, c := range []struct {
			on   callerOn
			want raysys.NodeID
		}{{callerOn{Key: "neither"}, "a"}, {callerOn{Key: "label", Zone: "west"}, "b"}, {callerOn{Key: "node", On: "c"}, "c"}} {
			if at, err := affinityCalls.With(raysys.OnNode("a")).Go(ctx, c.on).Get(ctx); at != c.want || err != nil {
				t.Errorf("%s: a grain whose caller on a prefers its own node is on %s, %v; not on %s", c.on.Key, at, err, c.want)
			}
		}
		// The group of a task captures no child that has conditions, of which a label with one value is one.
		group, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 1}})
		if err != nil {
			t.Fatal(err)
		}
		captures := affinityChild.With(group.Bundle(0), groups.CaptureChildren())
		for zone, on := range map[string]raysys.NodeID{"east": "a", "west": "b", "north": "c"} {
			if at, err := captures.Go(ctx, callerOn{On: on}).Get(ctx); at != on || err != nil {
				t.Errorf("a child for %s of a task in a group is on %s, %v", on, at, err)
			}
			if at, err := captures.Go(ctx, callerOn{Zone: zone}).Get(ctx); at != on || err != nil {
				t.Errorf("a child for zone %s of a task in a group is on %s, %v", zone, at, err)
			}
		}
		// A grain that is active stays; one is neither near itself nor away from itself.
		if at, err := residentWhere.With(raysys.OnNode("a")).Call(ctx, alice).Get(ctx); at != "c" || err != nil {
			t.Errorf("a grain that was on c is on %s, %v", at, err)
		}
		bob := residents.Get("bob")
		if at, err := residentWhere.With(raysys.Not(grains.Near(bob)), raysys.OnNode("a")).Call(ctx, bob).Get(ctx); at != "a" || err != nil {
			t.Errorf("a grain that is to be away from itself is on %s, %v", at, err)
		}
	})
}

// callerOn says which grain is called, and what the call, or a task, asks of its node.
type callerOn struct {
	Key, Zone string
	On        raysys.NodeID
}

func (c callerOn) options() (opts []raysys.Option) {
	if c.Zone != "" {
		opts = append(opts, raysys.Label("zone", c.Zone))
	}
	if c.On != "" {
		opts = append(opts, raysys.OnNode(c.On))
	}
	return opts
}

// affinityCalls calls a grain that is not active, affinityChild submits a task to a node.
var (
	affinityCalls = tasks.DefineIn(table, "affinity.calls", func(ctx context.Context, c callerOn) (raysys.NodeID, error) {
		opts := append(c.options(), raysys.Placement(raysys.PreferLocal))
		return residentWhere.With(opts...).Call(ctx, residents.Get(c.Key)).Get(ctx)
	})
	affinityChild = tasks.DefineIn(table, "affinity.child", func(ctx context.Context, c callerOn) (raysys.NodeID, error) {
		return groupWhere.With(c.options()...).Go(ctx, 0).Get(ctx)
	})
)

var affinitySlow = tasks.DefineIn(table, "affinity.affinitySlow", func(_ context.Context, n int) (int, error) {
	<-time.After(time.Second) // of the bubble
	return n, nil
})

// TestConditionsRefused: what no node meets, and what makes no sense, fails with the error of its kind.
func TestConditionsRefused(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		failed := affinityFails.Go(ctx)
		released := makeBytes.With(raysys.OnNode("a")).Go(ctx, 1<<20)
		if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{released}, 1); err != nil {
			t.Fatal(err)
		}
		released.Release()
		nobody := residents.Get("nobody")
		for _, c := range []struct {
			name string
			by   []raysys.Option
			want error
			says string
		}{
			{"unknown node", []raysys.Option{raysys.OnNode("x")}, raysys.ErrNoCapacity, "against the conditions: on x"},
			{"a driver", []raysys.Option{raysys.OnNode("d")}, raysys.ErrNoCapacity, "against the conditions: on d"},
			{"label of no node", []raysys.Option{raysys.Label("disk")}, raysys.ErrNoCapacity, "on a node with the label disk"},
			{"values of no node", []raysys.Option{raysys.Label("zone", "x", "y")}, raysys.ErrNoCapacity, "with the label zone=x|y"},
			{"contradiction", []raysys.Option{raysys.OnNode("a"), raysys.Not(raysys.OnNode("a"))}, raysys.ErrNoCapacity, "on a, not on a"},
			{"grain not active", []raysys.Option{grains.Near(nobody)}, raysys.ErrNoCapacity, "where grain resident/nobody is: nowhere"},
			{"failed value", []raysys.Option{raysys.Near(failed)}, errShort, "the value that it is to be near"},
			{"released value", []raysys.Option{raysys.Near(released)}, raysys.ErrReleased, "the value that it is to be near"},
			{"zero reference", []raysys.Option{raysys.Near(raysys.Ref[int]{})}, raysys.ErrInvalidRef, "Near of a zero reference"},
			{"zero grain", []raysys.Option{raysys.Prefer(grains.Near(grains.Grain[resident]{}))}, raysys.ErrInvalidRef, "Near of the zero Grain"},
			{"no node", []raysys.Option{raysys.OnNode()}, raysys.ErrBadOption, "OnNode()"},
			{"not nothing", []raysys.Option{raysys.Not()}, raysys.ErrBadOption, "Not takes one or more of"},
			{"nil", []raysys.Option{raysys.Not(nil)}, raysys.ErrBadOption, "Not(nil)"},
			{"no condition", []raysys.Option{raysys.Prefer(raysys.OnNode("a"), raysys.Deadline(1))}, raysys.ErrBadOption, "Prefer takes one or more of"},
			{"no key", []raysys.Option{raysys.Not(raysys.Label("", "a"))}, raysys.ErrBadOption, "a label needs a key"},
		} {
			for kind, do := range map[string]func() (raysys.NodeID, error){
				"task": func() (raysys.NodeID, error) { return groupWhere.With(c.by...).Go(ctx, 0).Get(ctx) },
				"grain": func() (raysys.NodeID, error) {
					return residentWhere.With(c.by...).Call(ctx, residents.Get(c.name)).Get(ctx)
				},
			} {
				if at, err := do(); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s, %s: on %q, %v; want %v with %q", c.name, kind, at, err, c.want, c.says)
				}
			}
		}
		for _, by := range [][]raysys.Option{{raysys.Not(raysys.Near(failed)), raysys.OnNode("b")}, {raysys.Prefer(raysys.Near(failed)), raysys.OnNode("b")}} {
			if at, err := groupWhere.With(by...).Go(ctx, 0).Get(ctx); at != "b" || err != nil {
				t.Errorf("away from a value that failed: on %q, %v", at, err)
			}
		}
		group, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 1}})
		if err != nil {
			t.Fatal(err)
		}
		for name, condition := range map[string]raysys.Option{
			"a name": raysys.OnNode("a"), "a preference": raysys.Prefer(raysys.OnNode("a")), "a label": raysys.Label("zone", "east"), "values of a label": raysys.Label("zone", "east", "west"),
		} {
			if _, err := groupWhere.With(group.Bundle(0), condition).Go(ctx, 0).Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
				t.Errorf("%s beside a bundle: %v", name, err)
			}
			if _, err := residentWhere.With(group.Bundle(0), condition).Call(ctx, nobody).Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
				t.Errorf("%s of a call beside a bundle: %v", name, err)
			}
		}
		// A call without conditions is not refused with one that waits before it.
		both := residents.Get("both")
		refused, plain := residentWhere.With(raysys.OnNode("x")).Call(ctx, both), residentWhere.Call(ctx, both)
		if _, err := refused.Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a call with a condition: %v", err)
		}
		if _, err := plain.Get(ctx); err != nil {
			t.Errorf("a call without a condition: %v", err)
		}
	})
}

// TestConditionsWait: with WaitForResources work waits until a node joins, or a grain is active, that its conditions mean; and says
// what it waits for. A node that dies takes the task with it: there is no other.
func TestConditionsWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		workers, ctx := zones(b)
		waits := groupWhere.With(raysys.WaitForResources())
		alice := residents.Get("alice")
		node := waits.With(raysys.OnNode("e")).Go(ctx, 0)
		grain := waits.With(grains.Near(alice)).Go(ctx, 0)
		call := residentWhere.With(grains.Near(alice), raysys.WaitForResources()).Call(ctx, residents.Get("bob"))
		<-time.After(10*time.Second + 100*time.Millisecond) // the leader is asked each 250 ms, and its answer counts for 200 ms
		for _, c := range []struct {
			of   raysys.Ref[raysys.NodeID]
			says []string
		}{
			{node, []string{"on d: a node: none can take it now, for 10.1s", "    only on e\n", "a: never, against the condition: on e"}},
			{grain, []string{"    only where grain resident/alice is: nowhere\n", "b: never, against the condition: where grain resident/alice is: nowhere"}},
			{call, []string{"grain resident/bob", "on d: a node: none has what it asks for", "    only where grain resident/alice is: nowhere\n", "c: never, against the condition"}},
		} {
			s, err := raysys.Explain(ctx, c.of)
			if err != nil {
				t.Errorf("explain: %v", err)
			}
			for _, want := range c.says {
				if !strings.Contains(s.String(), want) {
					t.Errorf("%q is missing in\n%v", want, s)
				}
			}
		}
		if at, err := residentWhere.With(raysys.OnNode("c")).Call(ctx, alice).Get(ctx); at != "c" || err != nil {
			t.Fatalf("a grain on c is on %s, %v", at, err)
		}
		for _, r := range []raysys.Ref[raysys.NodeID]{grain, call} {
			if at, err := r.Get(ctx); at != "c" || err != nil {
				t.Errorf("what waited for a grain is on %q, %v", at, err)
			}
		}
		b.join("e", system.Worker, twoCPUs)
		if at, err := node.Get(ctx); at != "e" || err != nil {
			t.Errorf("what waited for a node is on %q, %v", at, err)
		}

		running := groupWaits.With(raysys.OnNode("b")).Go(ctx, 0)
		<-time.After(time.Second)
		if err := workers["b"].Kill(context.Background(), errShort); err != nil {
			t.Fatal(err)
		}
		if _, err := running.Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), "on b") {
			t.Errorf("a task on a node that died: %v", err)
		}
		if at, err := groupWhere.With(raysys.Not(raysys.OnNode("a", "c", "e"))).Go(ctx, 0).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a task for which the dead node is left: on %q, %v", at, err)
		}
	})
}

// TestExplainGrainOf: what explains work that waits for a grain says where that is, also while the leader is asked again.
func TestExplainGrainOf(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		alice := residents.Get("alice")
		grain := groupWhere.With(raysys.WaitForResources(), grains.Near(alice)).Go(ctx, 0)
		call := residentWhere.With(grains.Near(alice), raysys.WaitForResources()).Call(ctx, residents.Get("bob"))
		<-time.After(time.Second)
		const want = "only where grain resident/alice is: nowhere\n"
		for range 150 {
			<-time.After(7 * time.Millisecond)
			for _, r := range []raysys.Ref[raysys.NodeID]{grain, call} {
				if s, err := raysys.Explain(ctx, r); err != nil || !strings.Contains(s.String(), want) {
					t.Fatalf("%q is missing in\n%v, %v", want, s, err)
				}
			}
		}
		if at, err := residentWhere.With(raysys.OnNode("c")).Call(ctx, alice).Get(ctx); at != "c" || err != nil {
			t.Fatalf("a grain on c is on %s, %v", at, err)
		}
		for _, r := range []raysys.Ref[raysys.NodeID]{grain, call} {
			if at, err := r.Get(ctx); at != "c" || err != nil {
				t.Errorf("what waited for a grain is on %q, %v", at, err)
			}
		}
	})
}

// TestTaskWaitsForGrain: a task that waits for a grain to be active, or to be elsewhere, is placed when it is, though nothing else
// happens in the cluster.
func TestTaskWaitsForGrain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		waits := groupWhere.With(raysys.WaitForResources())
		alice := residents.Get("alice")
		near := waits.With(grains.Near(alice)).Go(ctx, 0)
		<-time.After(time.Minute) // of the bubble
		if at, err := residentWhere.With(raysys.OnNode("c")).Call(ctx, alice).Get(ctx); at != "c" || err != nil {
			t.Fatalf("a grain on c is on %s, %v", at, err)
		}
		if at, err := near.Get(ctx); at != "c" || err != nil {
			t.Errorf("what waited for a grain to be active is on %q, %v", at, err)
		}
		apart := waits.With(raysys.OnNode("c"), raysys.Not(grains.Near(alice))).Go(ctx, 0)
		<-time.After(time.Minute)
		if raysys.PhaseOf(apart) != raysys.PhasePending {
			t.Fatal("a task is where a grain is that it is to be away from")
		}
		if _, err := residentLeave.Call(ctx, alice).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if at, err := apart.Get(ctx); at != "c" || err != nil {
			t.Errorf("what waited for a grain to leave is on %q, %v", at, err)
		}
	})
}

// TestPreferenceYields: tasks prefer a node of two CPUs. Those that it has no CPU for begin on the others, at once, and conditions hold
// for each.
func TestPreferenceYields(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		_, ctx := zones(b)
		began := time.Now()
		on := map[raysys.NodeID]int{}
		var refs []raysys.Ref[raysys.NodeID]
		slow := affinityWhere.With(raysys.Prefer(raysys.OnNode("b")))
		for range 4 {
			refs = append(refs, slow.With(raysys.Not(raysys.OnNode("c"))).Go(ctx, 0))
		}
		for _, r := range refs {
			at, err := r.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			on[at]++
		}
		// A task that waited for another to end would be over after 2 s.
		if took := time.Since(began); on["a"] != 2 || on["b"] != 2 || took >= 2*time.Second {
			t.Errorf("four tasks of 1 s on two nodes of two CPUs took %v: %v", took, on)
		}
	})
}

var affinityWhere = tasks.DefineIn(table, "affinity.where", func(ctx context.Context, _ int) (raysys.NodeID, error) {
	<-time.After(time.Second) // of the bubble
	return system.NodeOf(ctx).Name(), nil
})
