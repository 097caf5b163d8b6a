package system_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// relay is a grain whose turn waits for a task.
type relay struct{}

func (*relay) Pass(ctx context.Context) (int, error) {
	return groupWaits.With(raysys.Label("node", "a")).Go(ctx, 0).Get(ctx)
}

var (
	relayKind = grains.DefineIn[relay](table, "relay")
	relayPass = grains.Method0(relayKind, "pass", (*relay).Pass).With(raysys.NoDeadline())
	listFails = tasks.DefineIn(table, "list fails", func(_ context.Context, n int) (int, error) { return 0, fmt.Errorf("no row %d", n) })
	// listOuter waits on one node for listInner on another, which waits for the turn of a grain.
	listInner = tasks.Define0In(table, "list inner", func(ctx context.Context) (int, error) {
		return relayPass.With(raysys.OnNode("b")).Call(ctx, relayKind.Get("x")).Get(ctx)
	})
	listOuter = tasks.Define0In(table, "list outer", func(ctx context.Context) (int, error) {
		return listInner.With(raysys.Label("node", "b")).Go(ctx).Get(ctx)
	})
)

// listed is what the tests of lists start: workers a and b, a driver d with work, and an operator.
func (b *bubble) listed(cpus float64) (operator, driver *system.Node, ctx context.Context, end func()) {
	for _, name := range []string{"a", "b"} {
		b.join(raysys.NodeID(name), system.Worker, func(c *system.Config) {
			c.Resources.CPU, c.Cluster.Labels = cpus, map[string]string{"node": name}
		})
	}
	operator, _ = b.join("o", system.Driver, func(c *system.Config) { c.Cluster.Observer, c.Table = true, raysys.NewTable() })
	driver, ctx, end = b.aDriver("d")
	return operator, driver, ctx, end
}

// TestListTasks: an operator sees the tasks of all nodes, also those in the queue of a driver, by state, function, node and kind, and how
// many there are.
func TestListTasks(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(2)
		defer end()
		list := func(q inspect.TaskQuery) inspect.Tasks {
			t.Helper()
			all, err := operator.Tasks(context.Background(), q)
			if err != nil || len(all.Silent) > 0 {
				t.Fatalf("%+v: %v, silent %q", q, err, all.Silent)
			}
			return all
		}
		if all := list(inspect.TaskQuery{}); all.Count != 0 || all.Tasks == nil {
			t.Errorf("where there is no task: %+v", all)
		}
		long := groupWaits.With(raysys.Label("node", "a"), raysys.Detached()).Go(ctx, 0)
		<-time.After(time.Second)
		explainAfter.With(raysys.Detached()).Go(ctx, struct{ On raysys.Ref[int] }{long})
		for range 20 {
			groupWaits.Go(ctx, 0)
		}
		<-time.After(10 * time.Second)

		for _, c := range []struct {
			q     inspect.TaskQuery
			count int
			ids   bool
		}{
			{inspect.TaskQuery{}, 22, true},
			{inspect.TaskQuery{State: inspect.TaskRunning}, 4, true},
			{inspect.TaskQuery{State: inspect.TaskWaiting}, 18, true},
			{inspect.TaskQuery{State: inspect.TaskBlocked}, 0, true},
			{inspect.TaskQuery{Function: "explain after"}, 1, true},
			{inspect.TaskQuery{Function: "group waits", State: inspect.TaskWaiting, Limit: 3}, 17, false},
			{inspect.TaskQuery{Node: "a", State: inspect.TaskRunning}, 2, true},
			{inspect.TaskQuery{Detached: true}, 2, true},
			{inspect.TaskQuery{Detached: true, State: inspect.TaskRunning, Node: "a"}, 1, true},
			{inspect.TaskQuery{Detached: true, State: inspect.TaskRunning, Node: "b"}, 0, true},
		} {
			all := list(c.q)
			ids := map[string]bool{}
			for i, task := range all.Tasks {
				ids[task.ID] = true
				if i > 0 && task.Lasts > all.Tasks[i-1].Lasts {
					t.Errorf("%+v: task %d has lasted longer than that before it", c.q, i)
				}
				if q := c.q; q.State != "" && q.State != task.State || q.Node != "" && q.Node != task.Node || q.Function != "" && q.Function != task.Function || q.Detached != (q.Detached && task.Detached) {
					t.Errorf("%+v lists %+v", q, task)
				}
			}
			if all.Count != c.count || c.ids && len(ids) != c.count || !c.ids && len(ids) != c.q.Limit {
				t.Errorf("%+v: %d tasks, of them %d are listed; want %d\n%+v", c.q, all.Count, len(ids), c.count, all.Tasks)
			}
		}
		first := list(inspect.TaskQuery{Function: "explain after"}).Tasks[0]
		if first.Stage != "inputs" || !strings.Contains(first.For, "1 of its inputs") || first.Node != "d" || first.Lasts < 10*time.Second {
			t.Errorf("a task that waits for its input: %+v", first)
		}

		for _, c := range []struct {
			q    inspect.TaskQuery
			is   error
			says string
		}{
			{inspect.TaskQuery{State: "asleep"}, raysys.ErrBadOption, `no state "asleep": there are waiting, running, blocked`},
			{inspect.TaskQuery{Function: "nothing"}, raysys.ErrNotFound, "no node has a function nothing: there are "},
			{inspect.TaskQuery{Node: "z"}, system.ErrNoSuchNode, "raysys status lists the nodes"},
			{inspect.TaskQuery{Node: "z", Detached: true}, system.ErrNoSuchNode, "raysys status lists the nodes"},
		} {
			if _, err := operator.Tasks(context.Background(), c.q); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v", c.q, err)
			}
		}
		if _, err := operator.Grains(context.Background(), inspect.GrainQuery{Kind: "nothing"}); !errors.Is(err, raysys.ErrNotFound) || !strings.Contains(err.Error(), "no node has a kind of grain nothing: there are ") {
			t.Errorf("a kind that is none: %v", err)
		}

		b.net.Cut("o", "b")
		all, err := operator.Tasks(context.Background(), inspect.TaskQuery{})
		if err != nil || len(all.Silent) != 1 || !strings.HasPrefix(all.Silent[0], "b: ") || all.Count < 20 {
			t.Errorf("while b is silent: %v, silent %q, %d tasks", err, all.Silent, all.Count)
		}
	})
}

// checkPatience: beside a node that hangs, whatever is asked shows the rest within 4 s.
func checkPatience(b *bubble, operator *system.Node, id string) {
	t := b.t
	ctx := context.Background()
	for what, ask := range map[string]func() (silent []string, err error){
		"status": func() (s []string, err error) {
			all, err := operator.Status(ctx)
			for _, n := range all.Nodes {
				if n.Error != "" {
					s = append(s, string(n.Name)+": "+n.Error)
				}
			}
			return s, err
		},
		"functions": func() ([]string, error) { all, err := operator.Functions(ctx, 0); return all.Silent, err },
		"failures":  func() ([]string, error) { all, err := operator.Failures(ctx, 0); return all.Silent, err },
		"tasks":     func() ([]string, error) { all, err := operator.Tasks(ctx, inspect.TaskQuery{}); return all.Silent, err },
		"detached": func() ([]string, error) {
			all, err := operator.Tasks(ctx, inspect.TaskQuery{Detached: true})
			return all.Silent, err
		},
		"grains": func() ([]string, error) {
			all, err := operator.Grains(ctx, inspect.GrainQuery{})
			return all.Silent, err
		},
		"waits":   func() ([]string, error) { all, err := operator.Waits(ctx, 0); return all.Silent, err },
		"streams": func() ([]string, error) { all, err := operator.Streams(ctx); return all.Silent, err },
		"logs": func() ([]string, error) {
			all, err := operator.Logs(ctx, inspect.LogQuery{}, nil)
			return all.Silent, err
		},
		"objects": func() ([]string, error) {
			all, err := operator.Memory(ctx, "", 1)
			list := all.List(1)
			return list.Silent(), err
		},
		"an id": func() ([]string, error) { all, err := operator.Get(ctx, id); return all.Silent, err },
	} {
		b.net.Pause("b")
		began := time.Now()
		silent, err := ask()
		b.net.Resume("b")
		if took := time.Since(began); took > 4*time.Second || err != nil || !slices.ContainsFunc(silent, func(s string) bool { return strings.HasPrefix(s, "b: ") }) {
			t.Errorf("%s beside a node that hangs: after %v: %v, silent %q", what, took, err, silent)
		}
		<-time.After(10 * time.Second)
	}
}

// TestListWaits: a wait over nodes is shown from the task that waits down to the work at its end; the grains list shows the turn.
func TestListWaits(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(2)
		defer end()
		outer := listOuter.With(raysys.Label("node", "a")).Go(ctx)
		<-time.After(time.Second)
		for range 3 {
			relayPass.Call(ctx, relayKind.Get("x"))
		}
		<-time.After(20 * time.Second)

		all, err := operator.Waits(context.Background(), 0)
		if err != nil || len(all.Silent) > 0 || all.Count != 3 || len(all.Waits) != 3 || len(all.Ends) != 1 {
			t.Fatalf("%v, %+v", err, all)
		}
		byName := map[string]inspect.Task{}
		for _, w := range append(all.Waits, all.Ends...) {
			byName[w.Function] = w
		}
		at, chain := byName["list outer"], ""
		for range 4 {
			chain += fmt.Sprintf("%s on %s %s; ", at.Function, at.Node, at.State)
			if len(at.On) > 0 {
				at = byName[at.On[0].Name]
			}
		}
		want := "list outer on a blocked; list inner on b blocked; relay/x.pass on b blocked; group waits on a running; "
		if chain != want || byName["list outer"].ID != outer.ID().String() {
			t.Errorf("the chain of waits: %s", chain)
		}
		if one, err := operator.Waits(context.Background(), 1); err != nil || one.Count != 3 || len(one.Waits) < 1 {
			t.Errorf("one of three waits: %v, %+v", err, one)
		}

		grains, err := operator.Grains(context.Background(), inspect.GrainQuery{Kind: "relay"})
		if err != nil || grains.Count != 1 || len(grains.Grains) != 1 {
			t.Fatalf("%v, %+v", err, grains)
		}
		if g := grains.Grains[0]; g.Key != "x" || g.Mailbox != 3 || g.Turn != "relay.pass" || g.Lasts < 10*time.Second {
			t.Errorf("a grain in a turn: %+v", g)
		}
		if none, err := operator.Grains(context.Background(), inspect.GrainQuery{Key: "y"}); err != nil || none.Count != 0 {
			t.Errorf("keys that begin with y: %v, %+v", err, none)
		}
		checkPatience(b, operator, outer.ID().String())
	})
}

// TestListFunctions: the counts of all nodes are added up, with what runs and waits; what failed is there with an example.
func TestListFunctions(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(1)
		defer end()
		for _, node := range []string{"a", "b"} {
			for range 3 {
				meansShort.With(raysys.Label("node", node)).Go(ctx, 0).Get(ctx)
			}
		}
		if _, err := listFails.Go(ctx, 7).Get(ctx); err == nil {
			t.Error("it did not fail")
		}
		for range 5 {
			groupWaits.Go(ctx, 0)
		}
		<-time.After(10 * time.Second)
		all, err := operator.Functions(context.Background(), 0)
		if err != nil || len(all.Silent) > 0 {
			t.Fatal(err, all.Silent)
		}
		by := map[string]inspect.Function{}
		for _, f := range all.Functions {
			by[f.Name] = f
		}
		if f := by["means short"]; f.Runs != 6 || f.Errors != 0 || f.Ended["ok"] != 6 || f.P50 < time.Millisecond/2 || f.P99 > 10*time.Millisecond {
			t.Errorf("a function that ran six times on two nodes: %+v", f)
		}
		if f := by["group waits"]; f.Running != 2 || f.Waiting != 3 {
			t.Errorf("a function of which two run and three wait: %+v", f)
		}
		if f := by["list fails"]; f.Runs != 1 || f.Errors != 1 {
			t.Errorf("a function that failed: %+v", f)
		}
		failed, err := operator.Failures(context.Background(), 0)
		if err != nil || failed.Count != 1 || failed.Failures[0].Function != "list fails" || !strings.Contains(failed.Failures[0].Text, "no row 7") || failed.Failures[0].Count != 1 {
			t.Errorf("failures: %v, %+v", err, failed)
		}
	})
}

// TestListsAreBounded: of 20,000 waiting tasks and 20,000 grains, in the long form a million of each, a list has as many as asked for, or a mebibyte, and says how many there are.
func TestListsAreBounded(t *testing.T) {
	n, err := system.New(system.Config{Name: "alone", Table: table, Resources: raysys.Resources{CPU: 1}})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx, cancel := context.WithCancel(n.Context(context.Background()))
	defer cancel()
	many := long.Form(20_000, 1_000_000)
	for range many + 1 {
		groupWaits.Go(ctx, 0)
	}
	calls := make([]raysys.Ref[raysys.NodeID], many)
	for i := range calls {
		calls[i] = residentWhere.Call(ctx, residents.Get(fmt.Sprint("a key that is not short, and has the number ", i)))
	}
	if _, err := raysys.GetAll(ctx, calls).Values(); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 7, 1 << 30} {
		all, err := n.Tasks(ctx, inspect.TaskQuery{State: inspect.TaskWaiting, Limit: limit})
		text, _ := json.Marshal(all)
		if err != nil || all.Count < many-1 || all.Count > many+1 || len(text) > 1<<20 || limit == 7 && len(all.Tasks) != 7 || limit == 0 && len(all.Tasks) != 100 || limit > 100 && len(all.Tasks) < 1000 {
			t.Errorf("limit %d: %d of %d tasks, %d bytes, %v", limit, len(all.Tasks), all.Count, len(text), err)
		}
		kept, err := n.Grains(ctx, inspect.GrainQuery{Kind: "resident", Limit: limit})
		text, _ = json.Marshal(kept)
		if err != nil || kept.Count != many || len(text) > 1<<20 || limit == 7 && len(kept.Grains) != 7 || limit > 100 && len(kept.Grains) < 1000 {
			t.Errorf("limit %d: %d of %d grains, %d bytes, %v", limit, len(kept.Grains), kept.Count, len(text), err)
		}
	}
}
