package guide_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

type purchase struct {
	Region string
	Amount int
}

var (
	orders = stream.Define[purchase]("guide.orders", stream.Keep(30*24*time.Hour))
	_      = stream.Into(orders, buyers, (*buyer).OnOrder)                                                                             // to the grain of the key
	_      = stream.Into(orders, totals, (*total).OnOrder, stream.To(func(e stream.Event[purchase]) string { return e.Value.Region })) // to another
)

var (
	buyers = grains.Define[buyer]("guide.streams.buyer", grains.Durable())
	spent  = grains.Method0(buyers, "spent", func(b *buyer, _ context.Context) (int, error) { return b.Spent.Value, nil }).ReadOnly()
	totals = grains.Define[total]("guide.streams.total")
	audits = grains.Define[audit]("guide.streams.audit")
)

// buyer counts each order once: its kind is Durable, and it has a Cursor.
type buyer struct {
	Spent grains.State[int]
	stream.Cursor
}

func (b *buyer) OnOrder(ctx context.Context, e stream.Event[purchase]) error {
	b.Spent.Value += e.Value.Amount
	return nil
}

type total struct{ n int }

func (c *total) OnOrder(_ context.Context, e stream.Event[purchase]) error {
	c.n += e.Value.Amount
	return nil
}

type audit struct{}

func (*audit) OnOrder(_ context.Context, e stream.Event[purchase]) error { return nil }

var _ = stream.Into(orders, audits, (*audit).OnOrder, stream.OnError(stream.Retry(10, time.Minute), stream.Park))

func TestStreams(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = "memory:guide" }))
	ctx := k.Context()
	seq, err := orders.Publish(ctx, "alice", purchase{"north", 30}) // stored when it returns
	if err != nil {
		t.Fatal(err)
	}
	err = orders.PublishAll(ctx, "bob", []purchase{{"north", 5}, {"south", 7}}) // in this order
	if err != nil {
		t.Fatal(err)
	}
	if _, err := orders.Publish(ctx, "alice", purchase{"south", 12}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a client that has not heard the answer sends its request again
		if _, err := orders.Publish(ctx, "carol", purchase{"south", 3}, stream.ID("request 4711")); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for range orders.Read(ctx, "carol", stream.ToEnd()) {
		n++
	}
	if n != 1 {
		t.Fatal(n)
	}
	var got []int
	for e, err := range orders.Read(ctx, "alice", stream.From(seq)) { // goes on with what comes
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Value.Amount)
		if len(got) == 2 {
			break
		}
	}
	if !slices.Equal(got, []int{30, 12}) {
		t.Fatal(got)
	}
	testkit.Eventually(t, time.Minute, "alice's orders", func() bool {
		n, err := spent.Call(ctx, buyers.Get("alice")).Get(ctx)
		return n == 42 && err == nil
	})
	for e, err := range orders.Parked().Read(ctx, "alice", stream.ToEnd()) {
		fmt.Println(e.Seq, e.Value, e.Reason, err)
	}
}

func TestStreamsWithoutNATS(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	if _, err := orders.Publish(k.Context(), "alice", purchase{}); !errors.Is(err, stream.ErrNoNATS) {
		t.Fatal(err)
	}
}
