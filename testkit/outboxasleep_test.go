package testkit_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// crier is a herald whose OnActivate may fail.
type crier struct{ N grains.State[int] }

var crierFails atomic.Bool

func (*crier) OnActivate(context.Context) error {
	if crierFails.Load() {
		return errors.New("no bell")
	}
	return nil
}

// TestMessagesOfASleepingGrain: the messages of a grain that is on no node, since its kind is gone or its OnActivate
// fails, are seen with why it is not woken, and are dropped; others of it stay.
func TestMessagesOfASleepingGrain(t *testing.T) {
	for name, c := range map[string]struct {
		stays bool // the kind is on the other node too
		why   string
	}{
		"its kind is gone":     {false, "no worker that answers has its kind"},
		"its OnActivate fails": {true, "the leader of its shard has it woken"},
	} {
		t.Run(name, func(t *testing.T) {
			crierFails.Store(false)
			wait := make(chan struct{})
			table, others := raysys.NewTable(), raysys.NewTable()
			var criers grains.Kind[crier]
			var cry grains.Act[crier, string]
			for _, tb := range []*raysys.Table{others, table} {
				bystanders := grains.DefineIn[bystander](tb, "bystander")
				hear := grains.Action(bystanders, "hear", func(_ *bystander, _ context.Context, _ int) error {
					<-wait
					return nil
				})
				if tb == table || c.stays {
					criers = grains.DefineIn[crier](tb, "crier", grains.Durable())
					cry = grains.Action(criers, "cry", func(x *crier, ctx context.Context, to string) error {
						x.N.Value++
						return hear.Tell(ctx, bystanders.Get(to), x.N.Value)
					})
				}
			}
			k := testkit.New(t, testkit.Table(table), testkit.Nodes(2), testkit.Loose(), testkit.Each(func(i int, cfg *system.Config) {
				if i == 2 {
					cfg.Table = others
				}
			}))
			t.Cleanup(func() { close(wait) })
			ctx, n := k.Context(), k.Cluster().Node(2)
			for _, to := range []string{"r", "r", "q"} {
				if _, err := cry.Call(ctx, criers.Get("x"), to).Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			crierFails.Store(true)
			if c.stays { // whichever node has it
				if err := grains.Unload(ctx, criers.Get("x")); err != nil {
					t.Fatal(err)
				}
			} else {
				k.Cluster().Kill(1)
			}
			asleep := func(want int) {
				t.Helper()
				nodetest.Eventually(t, "the grain is seen asleep", func() bool {
					found, err := n.Get(ctx, "crier/x")
					if err != nil || len(found.Things) != 1 || len(found.Things[0].Outbox) != 1 {
						return false
					}
					x, f := found.Things[0].Outbox[0], found.Things[0].Failure
					told := f != nil && strings.Contains(f.Text, "no bell")
					return x.Messages == want && strings.Contains(x.Why, c.why) && told == c.stays &&
						(want < 3 || x.Receivers[0] == inspect.Receiver{To: "bystander/r", Messages: 2})
				})
			}
			asleep(3)
			if _, err := n.DropMessages(ctx, "crier/x", "bystander/z"); !errors.Is(err, raysys.ErrNotFound) ||
				!strings.Contains(err.Error(), "to bystander/z: there are bystander/q, bystander/r") {
				t.Errorf("messages to a receiver of which there are none: %v", err)
			}
			if got, err := n.DropMessages(ctx, "crier/x", "bystander/r"); got != 2 || err != nil {
				t.Fatalf("%d messages are dropped: %v", got, err)
			}
			asleep(1)
			if got, err := n.DropMessages(ctx, "crier/x", "bystander/q"); got != 1 || err != nil {
				t.Fatalf("%d messages are dropped: %v", got, err)
			}
			_, err := n.DropMessages(ctx, "crier/x", "bystander/q")
			if !errors.Is(err, raysys.ErrNotFound) || !strings.Contains(err.Error(), "there are no messages of a grain crier/x") {
				t.Errorf("messages that are dropped already: %v", err)
			}
		})
	}
}
