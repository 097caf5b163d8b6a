package guide_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var twice = tasks.Define("guide.testing.twice", func(ctx context.Context, n int) (int, error) { return 2 * n, nil })

type account struct{ balance grains.State[int] }

func (a *account) Deposit(ctx context.Context, n int) (int, error) {
	a.balance.Value += n
	return a.balance.Value, a.balance.Write(ctx)
}

func (a *account) Balance(ctx context.Context) (int, error) { return a.balance.Value, nil }

var (
	savings = grains.Define[account]("guide.testing.account")
	payIn   = grains.Method(savings, "deposit", (*account).Deposit)
	saved   = grains.Method0(savings, "balance", (*account).Balance).ReadOnly().Idempotent()
)

func TestTwice(t *testing.T) {
	ctx := testkit.New(t).Context() // the driver's: submit with it as main does
	n, err := twice.Go(ctx, 21).Get(ctx)
	if n != 42 || err != nil {
		t.Fatal(n, err)
	}
}

type bank struct{}

func (*bank) OnActivate(context.Context) error { return errors.New("no network") }

func (*bank) Debit(context.Context, int) (string, error) { return "", nil }

var (
	banks = grains.Define[bank]("guide.testing.bank")
	debit = grains.Method(banks, "debit", (*bank).Debit)
	buy   = tasks.Define("guide.testing.buy", func(ctx context.Context, euros int) (string, error) {
		return debit.Call(ctx, banks.Get("savings"), euros).Get(ctx)
	})
)

func TestBuy(t *testing.T) {
	ctx := testkit.New(t, testkit.Fake(debit, func(_ context.Context, key string, euros int) (string, error) {
		return fmt.Sprintf("%d euros by bank %s", euros, key), nil
	})).Context()
	if got, err := buy.Go(ctx, 5).Get(ctx); got != "5 euros by bank savings" || err != nil {
		t.Error(got, err)
	}
}

func TestAccountIsRemembered(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		alice := savings.Get("alice")
		if _, err := payIn.Call(ctx, alice, 5).Get(ctx); err != nil {
			t.Fatal(err)
		}
		k.Advance(20 * time.Minute) // the activation goes after 15 idle minutes
		if n, err := saved.Call(ctx, alice).Get(ctx); n != 5 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestAccountSurvives(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		alice := savings.Get("alice")
		there := payIn.With(raysys.OnNode("n2")) // the first call places the grain
		if _, err := there.Call(ctx, alice, 5).Get(ctx); err != nil {
			t.Fatal(err)
		}
		k.Cluster().Kill(2)
		if n, err := saved.Call(ctx, alice).Get(ctx); n != 5 || err != nil {
			t.Error(n, err)
		}
	}, testkit.Nodes(3))
}

var tries *testkit.Probe[int]

var stubborn = tasks.Define0("guide.testing.stubborn", func(ctx context.Context) (int, error) {
	n := raysys.Attempt(ctx)
	if err := tries.Put(ctx, n); err != nil || n > 1 {
		return n, err
	}
	<-ctx.Done() // the first attempt waits for the end of its node
	return 0, ctx.Err()
})

func TestTaskIsTriedAgain(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		tries = testkit.NewProbe[int](k, "attempts")
		r := stubborn.With(raysys.Prefer(raysys.OnNode("n2"))).Go(ctx)
		tries.Expect(1) // it runs
		k.Cluster().Kill(2)
		tries.Expect(2) // it runs elsewhere
		if n, err := r.Get(ctx); n != 2 || err != nil {
			t.Error(n, err)
		}
	}, testkit.Nodes(3))
}

func TestStoreAway(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, c := k.Context(), k.T(), k.Cluster()
		alice := savings.Get("alice")
		if _, err := payIn.Call(ctx, alice, 5).Get(ctx); err != nil {
			t.Fatal(err)
		}
		c.StoreDown()
		k.Advance(15 * time.Second) // longer than the lease, of 10 s
		if _, err := saved.Call(ctx, alice).Get(ctx); !errors.Is(err, raysys.ErrSuspended) {
			t.Error(err)
		}
		c.StoreUp()
		c.Ready()
		if n, err := saved.Call(ctx, alice).Get(ctx); n != 5 || err != nil {
			t.Error(n, err)
		}
	}, testkit.Nodes(3))
}

func TestAccountInChaos(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		h := testkit.NewHistory()
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for client := range 3 {
			ctx := raysys.Branch(ctx, client)
			clients.Go(func() {
				for {
					op := h.Begin(client, "alice", testkit.Add(1))
					n, err := payIn.Call(ctx, savings.Get("alice"), 1).Get(ctx)
					op.End(n, err)
					select {
					case <-stop:
						return
					case <-time.After(time.Second):
					}
				}
			})
		}
		testkit.Chaos(k, time.Minute, testkit.FaultKill, testkit.FaultPartition)
		close(stop)
		clients.Wait()
		testkit.Linearizable(k.T(), h, testkit.Register())
	}, testkit.Nodes(3))
}

func TestPartition(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, c := k.Context(), k.T(), k.Cluster()
		alice := savings.Get("alice")
		if _, err := payIn.With(raysys.OnNode("n1")).Call(ctx, alice, 5).Get(ctx); err != nil {
			t.Fatal(err)
		}
		c.Cut(0, 1)                 // the test's own node and n1 do not hear each other
		k.Advance(30 * time.Second) // what they say goes through another node
		if n, err := saved.Call(ctx, alice).Get(ctx); n != 5 || err != nil {
			t.Error(n, err)
		}
		c.Heal()
	}, testkit.Nodes(3))
}
