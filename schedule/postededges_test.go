package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestTurnEditsOfAnyName: names that are no text, and the longest, are edited by turns, in order.
func TestTurnEditsOfAnyName(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, g := k.Context(), k.T(), planners.Get("g")
		for _, name := range []string{"\xff\xfe", "a\x00b", "\x00", strings.Repeat("\xff", schedule.MaxName), "a/b%~.com", "x\n y"} {
			var do plan
			for _, verb := range []string{"hourly", "pause", "delete", "call", "pause", "resume", "pause"} {
				do.Do = append(do.Do, verb+" "+name)
			}
			_, err := follow.Call(ctx, g, do).Get(ctx)
			must(t, err)
			k.Advance(5 * time.Second)
			if got := how(ctx, name); got != "every 24h0m0s paused" {
				t.Errorf("%q: %s", name, got)
			}
		}
	})
}

// TestTurnEditsByAnother: an edit that another version of the program has written, or that would spoil the record,
// waits for a program that knows it.
func TestTurnEditsByAnother(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		must(t, verbs["call"](ctx, "x"))
		for _, body := range []string{
			"", "no JSON", "{}", `{"Verb":"hurry"}`, `{"Spec":{}}`,
			`{"Spec":{"When":{"Every":3600000000000},"Work":{"Function":""}}}`,
			`{"Spec":{"When":{"Every":1},"Work":{"Function":"f"}}}`,
			`{"Spec":{"When":{"Line":"x"},"Work":{"Function":"f"}}}`,
			`{"Spec":{"When":{"Every":3600000000000},"Overlap":9,"Work":{"Function":"f"}}}`,
			`{"Spec":{"When":{"Every":3600000000000},"CatchUp":-1,"Work":{"Function":"f"}}}`,
		} {
			outcome, err := schedule.DeliverNow(ctx, grainengine.Post{To: "x", Body: []byte(body), Number: 1})
			if outcome != nil || !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("%s: %v, %v", body, outcome, err)
			}
			if got := how(ctx, "x"); got != "every 24h0m0s" {
				t.Errorf("%s: it is %s", body, got)
			}
		}
	})
}

// TestTurnEditsAfterARestart: a program by itself, whose directory has edits that were not made, makes them when it
// begins again.
func TestTurnEditsAfterARestart(t *testing.T) {
	clear()
	dir := t.TempDir()
	_, let := schedule.HoldPosts()
	defer let()
	for run := range 2 {
		n, err := system.New(system.Config{Data: dir, Namespace: "test"})
		must(t, err)
		must(t, n.Start(t.Context()))
		ctx := n.Context(t.Context())
		if run == 0 {
			_, err = follow.Call(ctx, planners.Get("g"), planOf("hourly x,call x,pause x")).Get(ctx)
			must(t, err)
		} else {
			let()
			nodetest.Eventually(t, "the edits are made", func() bool { return how(ctx, "x") == "every 24h0m0s paused" })
		}
		must(t, n.Close(t.Context()))
	}
}

// TestTurnEditsAreDropped: raysys get shows the schedules that edits wait for, and raysys outbox drop takes each of
// their names, also one that is no text.
func TestTurnEditsAreDropped(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, g := k.Context(), k.T(), planners.Get("g")
		_, let := schedule.HoldPosts()
		defer let()
		names := map[string]string{
			"plain": "schedule:plain", "a/b c": "schedule:a/b c", "x\xff": `schedule:"x\xff"`,
			strings.Repeat("\xfe", schedule.MaxName): `schedule:"` + strings.Repeat(`\xfe`, schedule.MaxName) + `"`,
		}
		for name := range names {
			_, err := follow.Call(ctx, g, plan{[]string{"call " + name, "pause " + name}}).Get(ctx)
			must(t, err)
		}
		k.Advance(5 * time.Second)
		n := k.Cluster().Node(1)
		found, err := n.Get(ctx, "schedule.planner/g")
		must(t, err)
		shown := map[string]bool{}
		for _, r := range found.Things[0].Grains[0].Receivers {
			shown[r.To] = r.Messages == 2 && strings.Contains(r.Why, "held by test")
		}
		for _, to := range names {
			if !shown[to] {
				t.Errorf("of %s nothing is shown: %v", to, shown)
			}
			if n, err := n.DropMessages(ctx, "schedule.planner/g", to); n != 2 || err != nil {
				t.Errorf("%s: %d messages are dropped, %v", to, n, err)
			}
		}
		let()
		k.Advance(time.Minute)
		for name := range names {
			if got := how(ctx, name); got != "none" {
				t.Errorf("%q is %s", name, got)
			}
		}
	}, testkit.Nodes(2))
}
