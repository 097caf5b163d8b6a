package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// planner is a Durable grain whose turns edit schedules.
type planner struct{ Turns grains.State[int] }

// plan is what a turn does: verbs with names, such as "pause x". The last may be how it ends.
type plan struct{ Do []string }

var (
	planners = grains.Define[planner]("schedule.planner", grains.Durable())
	follow   = grains.Action(planners, "follow", (*planner).Follow)
	peek     = grains.Action(planners, "peek", (*planner).Follow).ReadOnly()
	later    = grains.Action(planners, "later", func(p *planner, ctx context.Context, list plan) error {
		_, err := grains.After(ctx, time.Second, func(ctx context.Context) error { return p.Follow(ctx, list) })
		return err
	})
	where = grains.Method0(planners, "where", func(_ *planner, ctx context.Context) (string, error) {
		return string(system.NodeOf(ctx).Name()), nil
	}).ReadOnly()
	errPlan = errors.New("the plan fails")
)

// Follow follows a plan. The first edit that is refused is its error.
func (p *planner) Follow(ctx context.Context, list plan) error {
	for _, line := range list.Do {
		if line == "fail" {
			return errPlan
		}
		verb, name, _ := strings.Cut(line, " ")
		if err := verbs[verb](ctx, name); err != nil {
			return err
		}
	}
	return nil
}

var verbs = map[string]func(ctx context.Context, name string) error{
	"pause":  schedule.Pause,
	"resume": schedule.Resume,
	"run":    schedule.Run,
	"delete": schedule.Delete,
	"call": func(ctx context.Context, name string) error {
		return schedule.Call0(ctx, name, schedule.Every(24*time.Hour), count, durable.Get("posted"))
	},
	"hourly": func(ctx context.Context, name string) error {
		return schedule.Call0(ctx, name, schedule.Every(time.Hour), count, durable.Get("posted"))
	},
	"task": func(ctx context.Context, name string) error {
		return schedule.Task(ctx, name, schedule.Every(24*time.Hour), job, "x")
	},
	"long": func(ctx context.Context, name string) error {
		return schedule.Task(ctx, name, schedule.Every(24*time.Hour), job, strings.Repeat("x", schedule.MaxArgument+1))
	},
	"often": func(ctx context.Context, name string) error {
		return schedule.Task(ctx, name, schedule.Every(time.Millisecond), job, "x")
	},
	"nothing": func(ctx context.Context, name string) error {
		return schedule.Call0(ctx, name, schedule.Every(time.Hour), count, grains.Grain[clock]{})
	},
	"refers": func(ctx context.Context, name string) error {
		return schedule.Task(ctx, name, schedule.Every(time.Hour), refers, raysys.Ref[string]{})
	},
}

// how is how a schedule is, in a few words.
func how(ctx context.Context, name string) string {
	i, err := schedule.Get(ctx, name)
	switch {
	case errors.Is(err, raysys.ErrNotFound):
		return "none"
	case err != nil:
		return err.Error()
	}
	words := i.When
	if i.Paused {
		words += " paused"
	}
	if !i.Last.IsZero() {
		words += " ran"
	}
	return words
}

// edits are what turns do to the schedule x, by its verb: how it is before and after.
var edits = map[string]struct{ before, do, want, is string }{
	"call":          {"", "call x", "none", "every 24h0m0s"},
	"task":          {"", "task x", "none", "every 24h0m0s"},
	"other content": {"call x", "hourly x", "every 24h0m0s", "every 1h0m0s"},
	"pause":         {"call x", "pause x", "every 24h0m0s", "every 24h0m0s paused"},
	"resume":        {"call x,pause x", "resume x", "every 24h0m0s paused", "every 24h0m0s"},
	"run":           {"call x", "run x", "every 24h0m0s", "every 24h0m0s ran"},
	"delete":        {"call x", "delete x", "every 24h0m0s", "none"},
	"in order":      {"", "hourly x,delete x,call x,pause x,resume x,pause x", "none", "every 24h0m0s paused"},
}

func planOf(lines string) plan { return plan{strings.Split(lines, ",")} }

// TestTurnEdits: what a turn of a Durable grain, or a tick of it, does to schedules is done once the turn is stored; of one that fails nothing is.
func TestTurnEdits(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		for verb, e := range edits {
			t.Run(fmt.Sprint(verb, " with ", nodes, " nodes"), func(t *testing.T) {
				var opts []testkit.Option
				if nodes > 0 {
					opts = append(opts, testkit.Nodes(nodes))
				}
				testkit.Virtual(t, func(k *testkit.Kit) {
					clear()
					ctx, t, g := k.Context(), k.T(), planners.Get("g")
					is := func(what, want string) {
						t.Helper()
						k.Advance(5 * time.Second)
						if got := how(ctx, "x"); got != want {
							t.Errorf("%s: %s, want %s", what, got, want)
						}
					}
					again := func() {
						must(t, ignore(schedule.Delete(ctx, "x"), raysys.ErrNotFound))
						if e.before != "" {
							must(t, new(planner).Follow(ctx, planOf(e.before)))
						}
					}
					again()
					if _, err := follow.Call(ctx, g, planOf(e.do+",fail")).Get(ctx); !errors.Is(err, errPlan) && !strings.Contains(fmt.Sprint(err), errPlan.Error()) {
						t.Fatal(err)
					}
					is("the turn has failed", e.want)
					_, err := follow.Call(ctx, g, planOf(e.do)).Get(ctx)
					must(t, err)
					is("the turn", e.is)
					again()
					_, err = later.Call(ctx, g, planOf(e.do+",fail")).Get(ctx)
					must(t, err)
					is("the tick has failed", e.want)
					_, err = later.Call(ctx, g, planOf(e.do)).Get(ctx)
					must(t, err)
					is("the tick", e.is)
					again()
					_, _ = peek.Call(ctx, g, planOf(e.do+",fail")).Get(ctx)
					is("a ReadOnly method, which takes nothing back", e.is)
				}, opts...)
			})
		}
	}
}

func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// TestTurnEditsTwice: an edit that comes again right after it has arrived changes nothing: the schedule has one firing for one Run, and stays as
// others have made it since.
func TestTurnEditsTwice(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, g := k.Context(), k.T(), planners.Get("g")
		defer schedule.PostTwice()()
		_, err := follow.Call(ctx, g, planOf("call twice,run twice")).Get(ctx)
		must(t, err)
		k.Advance(10 * time.Second)
		if n, err := counted.Call(ctx, durable.Get("posted")).Get(ctx); n != 1 || err != nil {
			t.Errorf("%d firings, %v", n, err)
		}
	})
}

// TestTurnEditsOfADyingNode: the edits of a turn whose node has died before they left are made by the next activation, in their order.
func TestTurnEditsOfADyingNode(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, g := k.Context(), k.T(), planners.Get("g")
		tried, let := schedule.HoldPosts()
		defer let()
		_, err := follow.Call(ctx, g, planOf("hourly x,call x,pause x")).Get(ctx)
		must(t, err)
		k.Advance(5 * time.Second)
		node, err := where.Call(ctx, g).Get(ctx)
		must(t, err)
		if got := how(ctx, "x"); got != "none" || tried.Load() < 3 {
			t.Errorf("held, and tried %d times, it is %s", tried.Load(), got)
		}
		for n := 1; n <= 3; n++ {
			if string(k.Cluster().Name(n)) == node {
				k.Cluster().Kill(n)
			}
		}
		let()
		k.Advance(2 * time.Minute)
		if got := how(ctx, "x"); got != "every 24h0m0s paused" {
			t.Errorf("after the death it is %s", got)
		}
	}, testkit.Nodes(3))
}

// TestTurnEditsThatCannotBe: bad input fails in the turn; what the schedule's record has against an edit is a line of the log, and holds up no
// other edit.
func TestTurnEditsThatCannotBe(t *testing.T) {
	logs, seen := observer.New(zap.WarnLevel)
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, g := k.Context(), k.T(), planners.Get("g")
		for _, c := range []struct {
			do  string
			is  error
			say string
		}{
			{"pause ", raysys.ErrBadOption, "a name of 0 bytes"},
			{"run " + strings.Repeat("n", schedule.MaxName+1), raysys.ErrBadOption, "a name of 513 bytes"},
			{"call ", raysys.ErrBadOption, "a name of 0 bytes"},
			{"often x", raysys.ErrBadOption, "give a second or more"},
			{"nothing x", raysys.ErrInvalidRef, "another kind"},
			{"long x", raysys.ErrTooLarge, "an argument of"},
			{"refers x", raysys.ErrBadOption, "references"},
		} {
			_, err := follow.Call(ctx, g, plan{[]string{c.do}}).Get(ctx)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%.20q: %v, want %v with %q", c.do, err, c.is, c.say)
			}
		}
		_, err := follow.Call(ctx, g, planOf("delete none,pause none,call none,pause none")).Get(ctx)
		must(t, err)
		k.Advance(time.Minute)
		if got := how(ctx, "none"); got != "every 24h0m0s paused" {
			t.Errorf("it is %s", got)
		}
		if lines := fmt.Sprint(seen.All()); !strings.Contains(lines, "schedule:none") || !strings.Contains(lines, "no schedule has the name") {
			t.Errorf("the log says %s", lines)
		}
	}, testkit.Config(system.Config{Logger: zap.New(logs)}))
}
