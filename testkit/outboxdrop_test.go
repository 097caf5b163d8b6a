package testkit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/testkit"
)

// TestDropMessagesOfANode: any node has the messages of a grain to a receiver dropped; what there is not is said, with what there is.
func TestDropMessagesOfANode(t *testing.T) {
	table := raysys.NewTable()
	wait := make(chan struct{})
	heard := make(chan int, 10)
	bystanders := grains.DefineIn[bystander](table, "bystander")
	hear := grains.Action(bystanders, "hear", func(_ *bystander, _ context.Context, n int) error {
		<-wait
		heard <- n
		return nil
	})
	kind := grains.DefineIn[herald](table, "herald", grains.Durable())
	tell := grains.Action0(kind, "tell", func(h *herald, ctx context.Context) error {
		h.N.Value++
		return hear.Tell(ctx, bystanders.Get("r"), h.N.Value)
	})
	k := testkit.New(t, testkit.Table(table), testkit.Nodes(2), testkit.Loose())
	ctx := k.Context()
	for range 3 {
		if _, err := tell.Call(ctx, kind.Get("x")).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	n := k.Cluster().Node(1)
	found, err := n.Get(ctx, "herald/x")
	if err != nil || len(found.Things) != 1 || len(found.Things[0].Grains) != 1 {
		t.Fatal(found, err)
	}
	g := found.Things[0].Grains[0]
	if g.Outbox != 3 || len(g.Receivers) != 1 || g.Receivers[0].To != "bystander/r" || g.Receivers[0].Messages != 3 {
		t.Errorf("%+v", g)
	}
	for _, bad := range [][3]string{
		{"herald/y", "bystander/r", "there are no messages of a grain herald/y"},
		{"herald/x", "bystander/q", "no node has a message of herald/x to bystander/q: there are bystander/r"},
	} {
		_, err := n.DropMessages(ctx, bad[0], bad[1])
		if !errors.Is(err, raysys.ErrNotFound) || !strings.Contains(err.Error(), bad[2]) {
			t.Errorf("%s to %s: %v", bad[0], bad[1], err)
		}
	}
	if got, err := n.DropMessages(ctx, "herald/x", "bystander/r"); got != 3 || err != nil {
		t.Errorf("%d messages are dropped: %v", got, err)
	}
	close(wait)
	if _, err := tell.Call(ctx, kind.Get("x")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	for got := 0; got != 4; {
		if got = <-heard; got != 1 && got != 4 {
			t.Errorf("message %d arrives", got)
		}
	}
}

// TestMessagesThatPileUp: an operator is told of grains whose messages are above half of their bound, and of no others.
func TestMessagesThatPileUp(t *testing.T) {
	table := raysys.NewTable()
	wait := make(chan struct{})
	bystanders := grains.DefineIn[bystander](table, "bystander")
	hear := grains.Action(bystanders, "hear", func(*bystander, context.Context, int) error {
		<-wait
		return nil
	})
	kind := grains.DefineIn[herald](table, "herald", grains.Durable())
	tell := grains.Action(kind, "tell", func(h *herald, ctx context.Context, n int) (err error) {
		for range n {
			h.N.Value++
			err = errors.Join(err, hear.Tell(ctx, bystanders.Get("r"), h.N.Value))
		}
		return err
	})
	k := testkit.New(t, testkit.Table(table), testkit.Nodes(2), testkit.Loose())
	t.Cleanup(func() { close(wait) })
	ctx := k.Context()
	for key, n := range map[string]int{"few": 1000, "many": 2048} {
		for ; n > 0; n -= 512 {
			if _, err := tell.Call(ctx, kind.Get(key), min(n, 512)).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := k.Cluster().Node(1).Grains(ctx, inspect.GrainQuery{Outbox: true})
	if err != nil || all.Count != 1 || all.Grains[0].Key != "many" || all.Grains[0].Outbox != 2048 ||
		len(all.Grains[0].Receivers) != 1 || all.Grains[0].Receivers[0].Messages != 2048 {
		t.Errorf("%+v, %v", all, err)
	}
}
