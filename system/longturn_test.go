package system_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

// stuck is a grain whose method waits for what does not come.
type stuck struct{}

func (s *stuck) Hang(ctx context.Context, of chan struct{}) error {
	helped := make(chan struct{})
	go helpStuck(of, helped)
	<-helped
	return nil
}

func helpStuck(of, helped chan struct{}) { <-of; close(helped) }

func (s *stuck) Rest(_ context.Context, of chan struct{}) error { <-of; return nil }

var (
	stuckEnds = make(chan struct{}) // a bubble's own: see TestLongTurn
	stuckKind = grains.DefineIn[stuck](table, "stuck")
	stuckHang = grains.Action0(stuckKind, "hang", func(s *stuck, ctx context.Context) error { return s.Hang(ctx, stuckEnds) })
	stuckRest = grains.Action0(stuckKind, "rest", func(s *stuck, ctx context.Context) error { return s.Rest(ctx, stuckEnds) }).With(raysys.NoDeadline())
)

// TestLongTurn: of a turn past its deadline Explain says where it is, for how long, and how many messages wait, with the stacks of its
// goroutines and of no other; the node logs it once. A turn without a deadline is none of that.
func TestLongTurn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		stuckEnds = make(chan struct{})
		core, logs := observer.New(zapcore.WarnLevel)
		b.join("a", system.Worker, func(c *system.Config) { c.Logger = zap.New(core) })
		driver, ctx := b.join("d", system.Driver)
		zed, calm := stuckKind.Get("zed"), stuckKind.Get("calm")
		hangs := stuckHang.With(raysys.Deadline(3*time.Second)).Call(ctx, zed)
		rests := stuckRest.Call(ctx, calm)
		<-time.After(time.Second)
		for range 3 {
			stuckRest.Call(ctx, zed)
		}
		if _, err := hangs.Get(ctx); err == nil {
			t.Error("it ended")
		}
		<-time.After(58 * time.Second)
		said := func(id string) raysys.Waiting {
			t.Helper()
			s, err := driver.Explain(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range s.Waits {
				if w.Node == "a" {
					return w
				}
			}
			t.Fatalf("nothing of node a:\n%v", s)
			return raysys.Waiting{}
		}
		w := said("stuck/zed")
		if want := "its turn: it is in stuck.hang, past its deadline, and 3 messages are in its mailbox"; w.For != want {
			t.Errorf("%q, want %q", w.For, want)
		}
		if w.Waited < 55*time.Second || w.Waited > 62*time.Second {
			t.Errorf("it is said to be in it for %v", w.Waited)
		}
		stacks := strings.Join(w.Stacks, "\n")
		if len(w.Stacks) != 2 || !strings.Contains(stacks, "system_test.(*stuck).Hang;") || !strings.Contains(stacks, "system_test.helpStuck;") || strings.Contains(stacks, "Rest") {
			t.Errorf("the stacks of its goroutines:\n%s", stacks)
		}
		late := func() []inspect.Grain {
			t.Helper()
			s, err := driver.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return s.Nodes[0].Late
		}
		if l := late(); len(l) != 1 || l[0].Kind != "stuck" || l[0].Key != "zed" || l[0].Node != "a" || l[0].Turn != "stuck.hang" || l[0].Late != "past its deadline" || l[0].Mailbox != 3 || l[0].Lasts < 55*time.Second {
			t.Errorf("late turns of the status: %+v", l)
		}
		if w := said("stuck/calm"); len(w.Stacks) > 0 || !strings.HasPrefix(w.For, "nothing: it is in stuck.rest, and 0 messages") {
			t.Errorf("a turn that may take its time: %+v", w)
		}
		lines := logs.FilterMessage("turn past its deadline").All()
		if len(lines) != 1 || lines[0].ContextMap()["grain"] != "stuck/zed" || !strings.Contains(lines[0].ContextMap()["detail"].(string), "(*stuck).Hang;") {
			t.Errorf("the log: %v", lines)
		}
		close(stuckEnds)
		if _, err := rests.Get(ctx); err != nil {
			t.Error(err)
		}
		<-time.After(time.Second) // before the next look
		if l := late(); len(l) != 0 {
			t.Errorf("late turns that have ended: %+v", l)
		}
		<-time.After(10 * time.Second)
		if w := said("stuck/zed"); w.For != "nothing: it is active, and 0 messages are in its mailbox" || w.Waited != 0 {
			t.Errorf("when it has ended: %+v", w)
		}
	})
}
