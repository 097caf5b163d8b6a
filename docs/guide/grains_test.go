package guide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// A Room is a chat room; what it knows is in memory only.
type Room struct {
	lines []string
}

func (r *Room) Say(ctx context.Context, line string) (int, error) {
	r.lines = append(r.lines, line) // no lock: turns of one grain never run at the same time
	return len(r.lines), nil
}

func (r *Room) Last(ctx context.Context) (string, error) {
	if len(r.lines) == 0 {
		return "", errSilent
	}
	return r.lines[len(r.lines)-1], nil
}

func (r *Room) Trim(ctx context.Context, n int) error {
	r.lines = r.lines[min(n, len(r.lines)):]
	return nil
}
func (r *Room) Shut(ctx context.Context) error { return grains.Deactivate(ctx) }

var (
	rooms = grains.Define[Room]("guide.grains.room")
	say   = grains.Method(rooms, "say", (*Room).Say)               // argument and result
	last  = grains.Method0(rooms, "last", (*Room).Last).ReadOnly() // result only
	trim  = grains.Action(rooms, "trim", (*Room).Trim)             // argument only
	shut  = grains.Action0(rooms, "shut", (*Room).Shut)            // neither
)

var errSilent = errors.New("nothing was said")

var _ = raysys.RegisterError("guide.grains.silent", errSilent)

var greeting = tasks.Define("guide.grains.greeting", func(ctx context.Context, name string) (string, error) {
	return "hello, " + name, nil
})

func Example_grainCall() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		kitchen := rooms.Get("kitchen")                 // a name; nothing happens yet
		n, err := say.Call(ctx, kitchen, "hi").Get(ctx) // the first call activates the grain
		fmt.Println(n, err)                             // 1 <nil>
		return err
	})
	// Output: 1 <nil>
}

func Example_grainWays() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		kitchen, hall := rooms.Get("kitchen"), rooms.Get("hall")
		a := say.Call(ctx, kitchen, "hi")                                   // a future, at once
		b := say.On(ctx, kitchen, greeting.Go(ctx, "ann"))                  // called when the task has its result
		err := say.Tell(ctx, hall, "hi")                                    // no future: err says only whether it was queued
		all := say.Each(ctx, []grains.Grain[Room]{kitchen, hall}, "dinner") // one future for each grain
		fmt.Println(err, raysys.GetAll(ctx, append(all, a, b))[2].Value)
		return nil
	})
	// Output: <nil> 1
}

// A Cache loads what it needs when it is activated.
type Cache struct {
	entries map[string]string
}

func (c *Cache) OnActivate(ctx context.Context) error { // before the first call
	c.entries = map[string]string{"colour": "green"}
	return nil
}

func (c *Cache) OnDeactivate(ctx context.Context) error { // after the last call; not when the process dies
	c.entries = nil
	return nil
}

func (c *Cache) Entry(ctx context.Context, key string) (string, error) { return c.entries[key], nil }

var (
	caches = grains.Define[Cache]("guide.grains.cache", grains.IdleAfter(time.Minute), grains.Mailbox(1000))
	entry  = grains.Method(caches, "entry", (*Cache).Entry).ReadOnly()
)

// A Model needs a place and no identity.
type Model struct{ weight float64 }

func (m *Model) OnActivate(ctx context.Context) error { m.weight = 2; return nil }

func (m *Model) Predict(ctx context.Context, x float64) (float64, error) { return m.weight * x, nil }

var (
	models  = grains.Define[Model]("guide.grains.model", grains.StatelessWorker(4)) // up to 4 activations for each key and node
	predict = grains.Method(models, "predict", (*Model).Predict).Idempotent()       // may run twice, so it is repeated
	quickly = predict.With(raysys.Deadline(time.Second), raysys.Retries(2))
)

func TestGrainKinds(t *testing.T) {
	ctx := testkit.New(t, testkit.Nodes(2)).Context()
	if v, err := entry.Call(ctx, caches.Get("main"), "colour").Get(ctx); v != "green" || err != nil {
		t.Error(v, err)
	}
	if v, err := quickly.Call(ctx, models.Get("price"), 21).Get(ctx); v != 42 || err != nil {
		t.Error(v, err)
	}
}

// An Account keeps its balance where the death of a node does not reach.
type Account struct {
	Balance grains.State[int]
}

func (a *Account) Deposit(ctx context.Context, n int) (int, error) {
	a.Balance.Value += n
	return a.Balance.Value, a.Balance.Write(ctx) // returns when it is stored
}

var (
	accounts = grains.Define[Account]("guide.grains.account")
	deposit  = grains.Method(accounts, "deposit", (*Account).Deposit)
)

func (a *Account) Now(ctx context.Context) (int, error) { return a.Balance.Value, nil }

var balance = grains.Method0(accounts, "now", (*Account).Now).ReadOnly().Idempotent()

var errFunds = errors.New("not enough money")

var _ = raysys.RegisterError("guide.grains.funds", errFunds)

// What a State holds outlives each of three nodes.
func TestGrainState(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	ctx := k.Context()
	ann, bob := accounts.Get("ann"), purses.Get("bob")
	if v, err := deposit.Call(ctx, ann, 5).Get(ctx); v != 5 || err != nil {
		t.Error(v, err)
	}
	for i := range 3 {
		if i > 0 {
			k.Cluster().Kill(i)
		}
		if v, err := balance.Call(ctx, ann).Get(ctx); v != 5 || err != nil {
			t.Error(v, err)
		}
		if v, err := order.Call(ctx, bob, -7).Get(ctx); v != 7 || err != nil { // the first one counts
			t.Error(v, err)
		}
		if _, err := spend.Call(ctx, bob, 8).Get(ctx); !errors.Is(err, errFunds) {
			t.Error(err)
		}
	}
}

// A Stage waits for other grains of its kind.
type Stage struct{}

func (s *Stage) Ask(ctx context.Context, others []grains.Grain[Stage]) (string, error) {
	if len(others) == 0 {
		return "the end", nil
	}
	return ask.Call(ctx, others[0], others[1:]).Get(ctx)
}

var (
	stages = grains.Define[Stage]("guide.grains.stage")
	ask    grains.Func[Stage, []grains.Grain[Stage], string]
)

func init() { ask = grains.Method(stages, "ask", (*Stage).Ask) }

func Example_grainCycle() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		a, b := stages.Get("a"), stages.Get("b")
		_, err := ask.Call(ctx, a, []grains.Grain[Stage]{b, a}).Get(ctx) // a waits for b, which waits for a
		fmt.Println(errors.Is(err, raysys.ErrCycle))                     // true
		v, err := ask.Reentrant().Call(ctx, a, []grains.Grain[Stage]{b}).Get(ctx)
		fmt.Println(v, err)
		return nil
	})
	// Output:
	// true
	// the end <nil>
}

// A call has 30 s.
func TestGrainDeadline(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		_, err := wait.Call(ctx, sleepers.Get("a")).Get(ctx)
		if !errors.Is(err, raysys.ErrDeadline) {
			k.T().Error(err)
		}
	})
}

type Sleeper struct{}

func (*Sleeper) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

var (
	sleepers = grains.Define[Sleeper]("guide.grains.sleeper")
	wait     = grains.Action0(sleepers, "wait", (*Sleeper).Wait)
)

// What a plain grain had in memory goes with its activation, and with its node.
func TestGrainMemoryIsLost(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		kitchen := rooms.Get("kitchen")
		if n, err := say.Call(ctx, kitchen, "hi").Get(ctx); n != 1 || err != nil {
			k.T().Error(n, err)
		}
		if _, err := trim.Call(ctx, kitchen, 0).Get(ctx); err != nil {
			k.T().Error(err)
		}
		k.Advance(20 * time.Minute)
		if _, err := last.Call(ctx, kitchen).Get(ctx); !errors.Is(err, errSilent) {
			k.T().Error(err)
		}
		if _, err := shut.Call(ctx, kitchen).Get(ctx); err != nil {
			k.T().Error(err)
		}
	})
	k := testkit.New(t, testkit.Nodes(2))
	ctx := k.Context()
	hall := rooms.Get("hall")
	first := say.With(raysys.OnNode("n1"))
	if n, err := first.Call(ctx, hall, "hi").Get(ctx); n != 1 || err != nil {
		t.Error(n, err)
	}
	k.Cluster().Kill(1)
	if _, err := last.Idempotent().Call(ctx, hall).Get(ctx); !errors.Is(err, errSilent) {
		t.Error(err)
	}
}
