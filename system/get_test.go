package system_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type (
	point struct{ X, Y int }
	// purse has a State that is JSON, one that is none, one that is long, and one with a reference.
	purse struct {
		Money grains.State[struct {
			Amount int
			Owner  string
		}]
		Odd  grains.State[map[point]int]
		Long grains.State[string]
		Held grains.State[struct{ Of raysys.Ref[int] }]
	}
)

func (p *purse) Fill(ctx context.Context, of raysys.Ref[int]) (int, error) {
	p.Money.Value.Amount, p.Money.Value.Owner = 7, "ada"
	p.Odd.Value = map[point]int{{1, 2}: 3}
	p.Long.Value = strings.Repeat("x", 70_000)
	p.Held.Value.Of = of
	return 0, errors.Join(p.Money.Write(ctx), p.Odd.Write(ctx), p.Long.Write(ctx), p.Held.Write(ctx))
}

// Rest has a turn that goes on, in which the value in memory is another than the stored one.
func (p *purse) Rest(ctx context.Context) (int, error) {
	p.Money.Value.Amount = 8
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

var (
	purseKind = grains.DefineIn[purse](table, "purse")
	purseFill = grains.Method(purseKind, "fill", (*purse).Fill)
	purseRest = grains.Method0(purseKind, "rest", (*purse).Rest).With(raysys.NoDeadline())
)

// one returns the only thing that a text names.
func one(t *testing.T, n *system.Node, text string) inspect.Thing {
	t.Helper()
	found, err := n.Get(context.Background(), text)
	if err != nil || found.Count != 1 || len(found.Things) != 1 || len(found.Silent) > 0 {
		t.Fatalf("get %s: %v, %+v", text, err, found)
	}
	return found.Things[0]
}

// TestGet: all that is known of a task, a grain with its stored State, a job and a placement group is in one answer, by ids, their first
// digits, and names.
func TestGet(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(2)
		defer end()
		runs := groupWaits.With(raysys.Label("node", "a")).Go(ctx, 0)
		late := explainAfter.Go(ctx, struct{ On raysys.Ref[int] }{runs})
		if _, err := purseFill.Call(ctx, purseKind.Get("x"), raysys.Put(ctx, 1)).Get(ctx); err != nil {
			t.Fatal(err)
		}
		rest := purseRest.Call(ctx, purseKind.Get("x"))
		<-time.After(7 * time.Second)
		purseRest.Call(ctx, purseKind.Get("x"))
		<-time.After(time.Second)

		for _, text := range []string{runs.ID().String(), runs.ID().String()[:12]} {
			task := one(t, operator, text)
			if task.Kind != inspect.ThingTask || len(task.Tasks) != 1 || task.Tasks[0].Node != "a" || task.Tasks[0].Of != "d" || task.Tasks[0].State != inspect.TaskRunning ||
				task.Scheduling == nil || len(task.Scheduling.Placed) != 1 || len(task.Scheduling.Waits) != 2 {
				t.Errorf("a task that runs: %+v", task)
			}
		}
		if task := one(t, operator, late.ID().String()); len(task.Tasks) != 1 || task.Tasks[0].Stage != "inputs" || task.Scheduling == nil || len(task.Scheduling.Waits[0].Inputs) != 1 {
			t.Errorf("a task that waits for an input: %+v", task)
		}

		g := one(t, operator, "purse/x")
		if g.Kind != inspect.ThingGrain || len(g.Grains) != 1 || g.Grains[0].Mailbox != 1 || g.Grains[0].Turn != "purse.rest" || len(g.Tasks) != 1 || g.Tasks[0].ID != rest.ID().String() {
			t.Errorf("a grain in a turn: %+v", g)
		}
		states := map[string]inspect.State{}
		for _, s := range g.States {
			states[s.Name] = s
		}
		if s := states["Money"]; string(s.JSON) != `{"Amount":7,"Owner":"ada"}` || s.Namespace != "test" || s.Why != "" {
			t.Errorf("what is stored is shown, not what the turn has: %+v", s)
		}
		if s := states["Odd"]; s.JSON != nil || !strings.HasPrefix(s.Why, "it is no JSON: json: unsupported type: map[") || s.Text != "map[{X:1 Y:2}:3]" {
			t.Errorf("a State that is no JSON: %+v", s)
		}
		if s := states["Long"]; s.JSON != nil || len(s.Text) != 64<<10 || s.Cut != 70_002-64<<10 {
			t.Errorf("a long State: %d bytes shown, %d cut, %s", len(s.Text), s.Cut, s.Why)
		}
		if s := states["Held"]; !strings.HasPrefix(s.Why, "it holds references") {
			t.Errorf("a State with a reference: %+v", s)
		}
		text, err := json.Marshal(g)
		var back inspect.Thing
		if err := errors.Join(err, json.Unmarshal(text, &back)); err != nil || len(back.States) != 4 {
			t.Errorf("as JSON: %v", err)
		}

		if _, err := groups.Create(ctx, placement.Pack, oneCPUEach(1), groups.Named("training")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if g := one(t, operator, "training"); g.Kind != inspect.ThingGroup || g.Group == nil || g.Group.State != inspect.GroupHeld {
			t.Errorf("a placement group: %+v", g)
		}
		for _, text := range []string{"nothing", "purse/nothing", "0123456789abcdef"} {
			if _, err := operator.Get(context.Background(), text); !errors.Is(err, raysys.ErrNotFound) || !strings.Contains(err.Error(), text) {
				t.Errorf("get %s: %v", text, err)
			}
		}

		for _, c := range []struct {
			text string
			is   error
			says string
		}{
			{"nothing", raysys.ErrNotFound, "no task or value"},
			{"purse/x", raysys.ErrBadOption, "is a grain, which is not cancelled"},
		} {
			if _, err := operator.Cancel(context.Background(), c.text); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("cancel %s: %v", c.text, err)
			}
		}
		if thing, err := operator.Cancel(context.Background(), runs.ID().String()[:20]); err != nil || thing.ID != runs.ID().String() {
			t.Errorf("cancel a task: %v, %+v", err, thing)
		}
		if _, err := runs.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
			t.Errorf("the task ended with %v", err)
		}
		<-time.After(time.Second)
		if _, err := operator.Cancel(context.Background(), runs.ID().String()); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("cancel a task that has ended: %v", err)
		}
		if thing, err := operator.Cancel(context.Background(), "training"); err != nil || thing.Kind != inspect.ThingGroup {
			t.Errorf("cancel a group: %v, %+v", err, thing)
		}

		still := groupWaits.With(raysys.Label("node", "a")).Go(ctx, 0)
		<-time.After(time.Second)
		for _, name := range []raysys.NodeID{"a", "d", "o"} {
			b.net.Cut(name, "b")
		}
		if found, err := operator.Get(context.Background(), still.ID().String()); err != nil && !strings.Contains(err.Error(), "b: ") || err == nil && (len(found.Silent) == 0 || !strings.HasPrefix(found.Silent[0], "b: ")) {
			t.Errorf("while b is silent: %v, %d things, silent %q", err, found.Count, found.Silent)
		}
	})
}

// Break fails, or panics, and is the grain's last turn.
func (p *purse) Break(ctx context.Context, how string) (int, error) {
	if how == "panic" {
		panic("the purse is torn")
	}
	return 0, errors.Join(errors.New(how), grains.Deactivate(ctx))
}

var (
	purseBreak = grains.Method(purseKind, "break", (*purse).Break)
	// getBreaks panics, or waits where it is given 0.
	getBreaks = tasks.DefineIn(table, "get breaks", func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		panic(fmt.Sprint("no bridge ", n))
	})
)

// TestGetFailures: of a task that failed, and of a call, the failure is found by its id; of a task that runs, the last of its function, unless
// there is one of its own; of a grain, which is gone, that of its last call. Stacks are those of where the work ran.
func TestGetFailures(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(2)
		defer end()
		var failed []raysys.Ref[int]
		for i := range 2 {
			for _, node := range []string{"a", "b"} {
				failed = append(failed, getBreaks.With(raysys.Label("node", node), raysys.Retries(0)).Go(ctx, 1+i))
				if _, err := failed[len(failed)-1].Get(ctx); err == nil {
					t.Fatal("it did not fail")
				}
				<-time.After(time.Second)
			}
		}
		x := purseKind.Get("x")
		var calls []raysys.Ref[int]
		for _, how := range []string{"panic", "no coin"} {
			calls = append(calls, purseBreak.Call(ctx, x, how))
			if _, err := calls[len(calls)-1].Get(ctx); err == nil || errors.Is(err, raysys.ErrBadOption) {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		waits := getBreaks.With(raysys.Label("node", "a"), raysys.Detached("bridges")).Go(ctx, 0)
		other := groupWaits.With(raysys.Label("node", "b")).Go(ctx, 0)
		<-time.After(time.Second)

		failure := func(text, kind string) inspect.Failure {
			t.Helper()
			thing := one(t, operator, text)
			if thing.Kind != kind || thing.Failure == nil {
				t.Fatalf("get %s: %+v", text, thing)
			}
			return *thing.Failure
		}
		last := failed[3].ID().String()
		for _, text := range []string{last, last[:20]} {
			if x := failure(text, inspect.ThingTask); x.ID != last || x.Node != "b" || x.Text != "panic: no bridge 2" || !x.Panic || x.Count != 2 || !strings.Contains(x.Stack, "get_test.go:") {
				t.Errorf("a task that failed: %+v", x)
			}
		}
		if x := failure(failed[2].ID().String(), inspect.ThingTask); x.ID != failed[2].ID().String() || x.Node != "a" {
			t.Errorf("of one that failed there is its own failure, not the last of its function: %+v", x)
		}
		if x := failure(failed[0].ID().String(), inspect.ThingTask); x.ID != last {
			t.Errorf("a failure that was folded with a later one: %+v", x)
		}
		for text, kind := range map[string]string{waits.ID().String(): inspect.ThingTask, "bridges": inspect.ThingJob} {
			if x := failure(text, kind); x.ID != last || x.Function != "get breaks" {
				t.Errorf("%s has the last failure of its function: %+v", text, x)
			}
		}
		if thing := one(t, operator, other.ID().String()); thing.Failure != nil {
			t.Errorf("a task of a function that has not failed: %+v", thing.Failure)
		}
		if all, err := operator.Grains(ctx, inspect.GrainQuery{Kind: "purse"}); err != nil || all.Count != 0 {
			t.Errorf("the grain is there: %v, %+v", err, all)
		}
		if x := failure("purse/x", inspect.ThingGrain); x.ID != calls[1].ID().String() || x.Text != "no coin" || x.Work != "purse/x.break" {
			t.Errorf("a grain: %+v", x)
		}
		if x := failure(calls[0].ID().String(), inspect.ThingCall); x.Text != "panic: the purse is torn" || !strings.Contains(x.Stack, "Break") {
			t.Errorf("a call that failed: %+v", x)
		}
		if _, err := operator.Cancel(ctx, last); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("cancel a task that has failed: %v", err)
		}
	})
}

// TestGetKeyNoText: grains whose keys are no text, and would be one as strings of JSON, are told apart in all that is asked of other nodes.
func TestGetKeyNoText(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(2)
		defer end()
		here := purseBreak.With(raysys.Label("node", "a"))
		key, other := "no text \xff", "no text \ufffd"
		if _, err := purseFill.Call(ctx, purseKind.Get(key), raysys.Put(ctx, 1)).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := here.Call(ctx, purseKind.Get(key), "no coin").Get(ctx); err == nil {
			t.Fatal("it did not fail")
		}
		rest := purseRest.Call(ctx, purseKind.Get(key))
		<-time.After(time.Second)
		if _, err := operator.Get(ctx, "purse/"+other); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("a grain that is not there: %v", err)
		}
		g := one(t, operator, "purse/"+key)
		if g.ID != "purse/"+key || len(g.Grains) != 1 || g.Grains[0].Key != key || g.Grains[0].Turn != "purse.rest" {
			t.Errorf("the grain: %+v", g)
		}
		if len(g.Tasks) != 1 || g.Tasks[0].ID != rest.ID().String() {
			t.Errorf("its turn: %+v", g.Tasks)
		}
		if len(g.States) != 4 || g.States[0].Why == "no node that answers has the kind" {
			t.Errorf("what is stored of it: %+v", g.States)
		}
		if g.Failure == nil || g.Failure.Text != "no coin" {
			t.Errorf("its failure: %+v", g.Failure)
		}
		for prefix, want := range map[string]int{key: 1, other: 0} {
			all, err := operator.Grains(ctx, inspect.GrainQuery{Kind: "purse", Key: prefix})
			if err != nil || all.Count != want || want == 1 && all.Grains[0].Key != key {
				t.Errorf("grains whose keys begin with %q: %+v, %v", prefix, all, err)
			}
		}
	})
}

// TestCancelOfSeveral: a text that fits a job and a placement group shows each, and cancels none: the error has their ids, by which each is
// cancelled.
func TestCancelOfSeveral(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		operator, _, ctx, end := b.listed(2)
		defer end()
		job := groupWaits.With(raysys.Label("node", "a"), raysys.Detached("training")).Go(ctx, 0)
		if _, err := groups.Create(ctx, placement.Pack, oneCPUEach(1), groups.Named("training")); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		found, err := operator.Get(context.Background(), "training")
		ids := map[string]string{}
		for _, thing := range found.Things {
			ids[thing.Kind] = thing.ID
		}
		if err != nil || found.Count != 2 || len(found.Things) != 2 || ids[inspect.ThingJob] != job.ID().String() || ids[inspect.ThingGroup] == "" {
			t.Fatalf("get: %v, %+v", err, found)
		}
		_, err = operator.Cancel(context.Background(), "training")
		if !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), "job "+ids[inspect.ThingJob]) || !strings.Contains(err.Error(), "group "+ids[inspect.ThingGroup]) {
			t.Errorf("cancel both: %v", err)
		}
		if all, err := operator.Tasks(context.Background(), inspect.TaskQuery{State: inspect.TaskRunning}); err != nil || all.Count != 1 {
			t.Errorf("the job has ended: %v, %+v", err, all)
		}
		for _, kind := range []string{inspect.ThingGroup, inspect.ThingJob} {
			want := kind
			if kind == inspect.ThingJob {
				want = inspect.ThingTask // by its id it is the task that it is
			}
			if thing, err := operator.Cancel(context.Background(), ids[kind]); err != nil || thing.Kind != want {
				t.Errorf("cancel the %s by its id: %v, %+v", kind, err, thing)
			}
			<-time.After(time.Second)
		}
		if _, err := job.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
			t.Errorf("the job ended with %v", err)
		}
		if all, err := operator.Groups(context.Background(), "", 9); err != nil || all.Count != 0 {
			t.Errorf("the group is there: %v, %+v", err, all)
		}
	})
}

// TestGetAlone: a process in no cluster answers for itself, also of its jobs.
func TestGetAlone(t *testing.T) {
	n, err := system.New(system.Config{Name: "alone", Table: table, Resources: raysys.Resources{CPU: 2}})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	job := groupWaits.With(raysys.Detached("nightly/1")).Go(ctx, 0)
	if _, err := purseFill.Call(ctx, purseKind.Get("x"), raysys.Put(ctx, 1)).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if g := one(t, n, "purse/x"); len(g.States) != 4 || string(g.States[0].JSON) != `{"Amount":7,"Owner":"ada"}` {
		t.Errorf("what is stored: %+v", g.States)
	}
	if _, err := purseBreak.Call(ctx, purseKind.Get("y"), "no coin").Get(ctx); err == nil {
		t.Error("it did not fail")
	}
	if g := one(t, n, "purse/y"); g.Kind != inspect.ThingGrain || g.Failure == nil || g.Failure.Text != "no coin" {
		t.Errorf("a grain of which a failure is all that is left: %+v", g)
	}
	if j := one(t, n, "nightly/1"); j.Kind != inspect.ThingJob || j.ID != job.ID().String() || j.Value.State != "pending" {
		t.Errorf("job %s is shown as %s %s: %s", job.ID(), j.Kind, j.ID, j.Value)
	}
	stacks, err := n.Stack(ctx, "alone")
	if err != nil || stacks.Goroutines < 2 || !strings.Contains(fmt.Sprint(stacks.Stacks), "system_test.TestGetAlone ") {
		t.Errorf("stacks: %v, %+v", err, stacks)
	}
	if _, err := n.Stack(ctx, "other"); !errors.Is(err, system.ErrNoSuchNode) {
		t.Errorf("stacks of a node that is not there: %v", err)
	}
	if thing, err := n.Cancel(ctx, "nightly/1"); err != nil || thing.Kind != inspect.ThingJob {
		t.Errorf("cancel a job: %v, %+v", err, thing)
	}
	if _, err := job.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("the job ended with %v", err)
	}
}
