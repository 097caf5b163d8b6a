package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

type order struct {
	Region string
	Amount int
}

var (
	orders   = stream.Define[order]("orders", stream.Keep(time.Hour))
	accounts = grains.Define[account]("account", grains.Durable())
	balance  = grains.Method0(accounts, "balance", (*account).Read).ReadOnly()
	regions  = grains.Define[region]("region")
	seen     = grains.Method0(regions, "seen", (*region).Read).ReadOnly()

	_ = stream.Into(orders, accounts, (*account).OnOrder)
	_ = stream.Into(orders, regions, (*region).OnOrder, stream.To(func(e stream.Event[order]) string { return e.Value.Region }))
)

// account adds up the orders of its key, each once.
type account struct {
	Sum grains.State[int]
	stream.Cursor
}

func (a *account) OnOrder(ctx context.Context, e stream.Event[order]) error {
	a.Sum.Value += e.Value.Amount
	return nil
}

func (a *account) Read(context.Context) (int, error) { return a.Sum.Value, nil }

// region lists what it has seen, in memory.
type region struct{ list []string }

func (r *region) OnOrder(_ context.Context, e stream.Event[order]) error {
	r.list = append(r.list, fmt.Sprint(e.Key, " ", e.Value.Amount))
	return nil
}

func (r *region) Read(context.Context) ([]string, error) { return r.list, nil }

// inMemory gives all nodes of a testkit cluster one bus in memory. What handlers have written before is forgotten.
func inMemory(t *testing.T) testkit.Option {
	books.Clear()
	tries.Store(0)
	return testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = "memory:" + t.Name() })
}

func eventually[T comparable](t testing.TB, ctx context.Context, what string, get func(context.Context) (T, error), want T) {
	t.Helper()
	var got T
	testkit.Eventually(t, 60*time.Second, what, func() (ok bool) {
		var err error
		got, err = get(ctx)
		return err == nil && got == want
	})
}

// TestDelivery: events reach the grain of their key, and the one that To chooses, from any node.
func TestDelivery(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3), inMemory(t))
	ctx := k.Context()
	last := map[string]uint64{}
	for i := range 30 {
		key := []string{"alice", "bob", ""}[i%3]
		seq, err := orders.Publish(k.Cluster().Node(i%4).Context(t.Context()), key, order{"north", i})
		if err != nil || seq <= last[key] {
			t.Fatal(seq, err)
		}
		last[key] = seq
	}
	if err := orders.PublishAll(ctx, "carol", []order{{"south", 1}, {"south", 2}, {"south", 3}}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"alice": 135, "bob": 145, "": 155, "carol": 6} {
		eventually(t, ctx, "balance of "+key, func(ctx context.Context) (int, error) { return balance.Call(ctx, accounts.Get(key)).Get(ctx) }, want)
	}
	eventually(t, ctx, "the north", func(ctx context.Context) (int, error) {
		list, err := seen.Call(ctx, regions.Get("north")).Get(ctx)
		return len(list), err
	}, 30)
	list, err := seen.Call(ctx, regions.Get("north")).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var alice []string
	for _, e := range list {
		if strings.HasPrefix(e, "alice ") {
			alice = append(alice, e)
		}
	}
	if want := []string{"alice 0", "alice 3", "alice 6", "alice 9", "alice 12", "alice 15", "alice 18", "alice 21", "alice 24", "alice 27"}; !slices.Equal(alice, want) {
		t.Fatal(alice)
	}
}

// TestRead: a reader gets the events of its key, from the number that it asks for, and then those that come.
func TestRead(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	var seqs []uint64
	for i := range 5 {
		seq, err := orders.Publish(ctx, "alice", order{Amount: i})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := orders.Publish(ctx, "bob", order{Amount: 100}); err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, seq)
	}
	var got []int
	for e, err := range orders.Read(ctx, "alice", stream.From(seqs[2]), stream.ToEnd()) {
		if err != nil || e.Key != "alice" || e.Time.IsZero() || e.Seq != seqs[e.Value.Amount] {
			t.Fatal(e, err)
		}
		got = append(got, e.Value.Amount)
	}
	if !slices.Equal(got, []int{2, 3, 4}) {
		t.Fatal(got)
	}
	got = nil
	for e, err := range orders.Read(ctx, "alice") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.Value.Amount); len(got) == 5 {
			if _, err := orders.Publish(ctx, "alice", order{Amount: 5}); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == 6 {
			break
		}
	}
	if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Fatal(got)
	}
	for range orders.Read(ctx, "nobody", stream.ToEnd()) {
		t.Fatal("an event of nobody")
	}
}

// TestNoNATS: a cluster without a server says what to do.
func TestNoNATS(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	_, err := orders.Publish(k.Context(), "alice", order{})
	if !errors.Is(err, stream.ErrNoNATS) || !strings.Contains(err.Error(), "RAYSYS_NATS") || !strings.Contains(err.Error(), "make nats") {
		t.Fatal(err)
	}
}

// TestBadCalls: what is wrong is said, and nothing is stored.
func TestBadCalls(t *testing.T) {
	k := testkit.New(t)
	if _, err := orders.Publish(k.Context(), strings.Repeat("x", stream.MaxKey+1), order{}); !errors.Is(err, raysys.ErrTooLarge) {
		t.Fatal(err)
	}
	if _, err := orders.Publish(t.Context(), "alice", order{}); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Fatal(err)
	}
}

var (
	longName = stream.Define[int](strings.Repeat("ü", 40), stream.Partitions(1)) // 240 bytes on a server, and those of the cluster and the namespace
	brief    = stream.Define[int]("brief", stream.Partitions(1), stream.Keep(50*time.Millisecond))
	blob     = stream.Define[[]byte]("blob", stream.Partitions(1))
)

// TestOutOfBounds: a stream, or an event, that a server would refuse is refused at once, and in memory as on NATS.
func TestOutOfBounds(t *testing.T) {
	for name, o := range map[string]testkit.Option{"memory": inMemory(t), "NATS": onNATS(testkit.NATS(t))} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.New(t, testkit.Nodes(1), o).Context()
			for _, s := range []stream.Stream[int]{longName, brief} {
				if _, err := s.Publish(ctx, "x", 1); !errors.Is(err, raysys.ErrBadDefinition) {
					t.Error(err)
				}
				for _, err := range s.Read(ctx, "x") {
					if !errors.Is(err, raysys.ErrBadDefinition) {
						t.Error(err)
					}
				}
			}
			n := stream.MaxEvent
			for ; n > 0; n-- { // the codec adds some bytes
				if _, err := blob.Publish(ctx, "x", make([]byte, n)); err == nil {
					break
				} else if !errors.Is(err, raysys.ErrTooLarge) {
					t.Fatal(n, err)
				}
			}
			if n < stream.MaxEvent-16 {
				t.Error("the largest event has", n)
			}
			if err := blob.PublishAll(ctx, "y", [][]byte{nil, make([]byte, n+1)}); !errors.Is(err, raysys.ErrTooLarge) {
				t.Error(err)
			}
			for range blob.Read(ctx, "y", stream.ToEnd()) {
				t.Error("a part of a list that is too large is stored")
			}
		})
	}
}

// TestNamesThatDoNotFit: system.New, which knows the cluster and the namespace, refuses a subscription whose stream a server would refuse, or the stream of
// its parked events, and says where it is defined.
func TestNamesThatDoNotFit(t *testing.T) {
	for n := 100; n < 300; n++ { // the shortest namespace with which one does not fit
		of, err := system.New(system.Config{Namespace: strings.Repeat("n", n)})
		if err == nil {
			if err := of.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), "subscription ") || !strings.Contains(err.Error(), "_test.go:") ||
			!strings.Contains(err.Error(), `.parked" has 256 bytes`) {
			t.Fatal(n, err)
		}
		return
	}
	t.Fatal("all of them fit")
}

// ledger is a Durable grain that publishes in its turns.
type ledger struct{ Count grains.State[int] }

func (l *ledger) Pay(ctx context.Context, id string) (int, error) {
	l.Count.Value++
	_, err := payments.Publish(ctx, "x", l.Count.Value, stream.ID(id))
	return l.Count.Value, err
}

var (
	payments = stream.Define[int]("payments")
	ledgers  = grains.Define[ledger]("ledger", grains.Durable())
	pay      = grains.Method(ledgers, "pay", (*ledger).Pay)
)

// Begin has a timer publish, twice, in ticks that change nothing.
func (l *ledger) Begin(ctx context.Context) error {
	n := 0
	var stop func()
	stop, err := grains.Every(ctx, time.Second, func(ctx context.Context) error {
		if n++; n == 2 {
			stop()
		}
		_, err := payments.Publish(ctx, "tick", n)
		return err
	})
	return err
}

var begin = grains.Action0(ledgers, "begin", (*ledger).Begin)

// TestPublishWithoutChange: what a turn of a Durable grain publishes is stored also where it changes no State.
func TestPublishWithoutChange(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		if _, err := begin.Call(ctx, ledgers.Get("t")).Get(ctx); err != nil {
			t.Fatal(err)
		}
		for e, err := range payments.Read(ctx, "tick") {
			if err != nil {
				t.Fatal(err)
			}
			if e.Value == 2 {
				return
			}
		}
	}, inVirtualMemory(t))
}

// TestID: of events of one key with the same id one is stored, also where a turn of a Durable grain publishes them, in memory as on NATS. Those of other
// keys, with other ids or without one are others.
func TestID(t *testing.T) {
	for name, o := range map[string]testkit.Option{"memory": inMemory(t), "NATS": onNATS(testkit.NATS(t))} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.New(t, testkit.Nodes(2), o).Context()
			put := func(key string, v int, opts ...stream.PublishOption) uint64 {
				t.Helper()
				seq, err := payments.Publish(ctx, key, v, opts...)
				if err != nil {
					t.Fatal(err)
				}
				return seq
			}
			long := strings.Repeat("\u00fc\r\n", 1000)
			first := put("x", -1, stream.ID("a"))
			if again := put("x", -2, stream.ID("a")); again != first {
				t.Fatal(first, again)
			}
			put("x", -3)
			put("x", -3)
			put("x", -4, stream.ID(long))
			put("x", -5, stream.ID(long))
			last := first
			for _, o := range []struct{ key, id string }{{"y", "a"}, {"xa", "b"}, {"x", "ab"}} { // no two of them are one
				seq := put(o.key, -8, stream.ID(o.id))
				if seq <= last {
					t.Fatal(o, seq, last)
				}
				last = seq
			}
			for i, id := range []string{"a", "turn", "turn", "last"} { // the first is stored already
				if n, err := pay.Call(ctx, ledgers.Get("l"), id).Get(ctx); err != nil || n != i+1 {
					t.Fatal(n, err)
				}
			}
			var got []int
			for e, err := range payments.Read(ctx, "x") {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, e.Value); e.Value == 4 {
					break
				}
			}
			if want := []int{-1, -3, -3, -4, -8, 2, 4}; !slices.Equal(got, want) {
				t.Fatal(got, want)
			}
			if _, err := payments.Publish(ctx, "x", 1, stream.ID("")); err == nil || !strings.Contains(err.Error(), "give an id") {
				t.Fatal(err)
			}
		})
	}
}

func onNATS(s *testkit.NATSServer) testkit.Option {
	return testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = s.URL() })
}
