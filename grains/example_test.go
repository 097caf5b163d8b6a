package grains_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// An Account is a grain: a struct whose methods run one at a time.
type Account struct{ balance int }

// Deposit adds to the balance and returns it.
func (a *Account) Deposit(_ context.Context, amount int) (int, error) {
	a.balance += amount
	return a.balance, nil
}

// Balance returns the balance.
func (a *Account) Balance(context.Context) (int, error) { return a.balance, nil }

// Close empties the account and lets the activation go.
func (a *Account) Close(ctx context.Context) error { a.balance = 0; return grains.Deactivate(ctx) }

// Transfer moves money to another account, which is an argument like any other.
func (a *Account) Transfer(ctx context.Context, to grains.Grain[Account]) error {
	a.balance -= 10
	_, err := deposit.Call(ctx, to, 10).Get(ctx)
	return err
}

// OnDeactivate runs after the last call.
func (a *Account) OnDeactivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	if id.Key == "carol" {
		fmt.Println(id, "goes")
	}
	return nil
}

// The kind and its methods are made once, in package variables.
var (
	accounts = grains.Define[Account]("account")
	deposit  = grains.Method(accounts, "deposit", (*Account).Deposit)
	balance  = grains.Method0(accounts, "balance", (*Account).Balance).ReadOnly()
	transfer = grains.Action(accounts, "transfer", (*Account).Transfer)
	shut     = grains.Action0(accounts, "close", (*Account).Close)
)

// node starts a node for an example; end closes it.
func node() (ctx context.Context, end func()) {
	n, err := system.New(system.Config{})
	if err != nil {
		panic(err)
	}
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	return n.Context(context.Background()), func() { n.Close(context.Background()) }
}

func Example() {
	ctx, end := node()
	defer end()
	alice, bob := accounts.Get("alice"), accounts.Get("bob")
	deposit.Call(ctx, alice, 100)
	if _, err := transfer.Call(ctx, alice, bob).Get(ctx); err != nil {
		fmt.Println(err)
	}
	for _, r := range balance.Each(ctx, []grains.Grain[Account]{alice, bob}) {
		v, err := r.Get(ctx)
		fmt.Println(v, err)
	}
	// Output:
	// 90 <nil>
	// 10 <nil>
}

func ExampleDefine() {
	// var accounts = grains.Define[Account]("account")
	fmt.Println(accounts.Name(), accounts.Get("alice"))
	// Output: account account/alice
}

func ExampleDefineIn() {
	table := raysys.NewTable() // for a test that shares nothing with others
	k := grains.DefineIn[Account](table, "account", grains.IdleAfter(time.Minute), grains.Mailbox(100))
	grains.Method(k, "deposit", (*Account).Deposit)
	_, err := system.New(system.Config{Table: table})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleMethod() {
	ctx, end := node()
	defer end()
	// var deposit = grains.Method(accounts, "deposit", (*Account).Deposit)
	fmt.Println(deposit.Call(ctx, accounts.Get("alice"), 5).Get(ctx))
	// Output: 5 <nil>
}

func ExampleMethod0() {
	ctx, end := node()
	defer end()
	// var balance = grains.Method0(accounts, "balance", (*Account).Balance).ReadOnly()
	fmt.Println(balance.Call(ctx, accounts.Get("new")).Get(ctx))
	// Output: 0 <nil>
}

func ExampleAction() {
	ctx, end := node()
	defer end()
	// var transfer = grains.Action(accounts, "transfer", (*Account).Transfer)
	_, err := transfer.Call(ctx, accounts.Get("alice"), accounts.Get("bob")).Get(ctx)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleAction0() {
	ctx, end := node()
	defer end()
	// var shut = grains.Action0(accounts, "close", (*Account).Close)
	_, err := shut.Call(ctx, accounts.Get("alice")).Get(ctx)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleFunc_Call() {
	ctx, end := node()
	defer end()
	alice := accounts.Get("alice")
	first, second := deposit.Call(ctx, alice, 1), deposit.Call(ctx, alice, 2) // both at once, in this order
	fmt.Println(first.Get(ctx))
	fmt.Println(second.Get(ctx))
	// Output:
	// 1 <nil>
	// 3 <nil>
}

func ExampleFunc_On() {
	ctx, end := node()
	defer end()
	amount := raysys.Put(ctx, 7) // or the result of a task or another call, ready or not
	fmt.Println(deposit.On(ctx, accounts.Get("alice"), amount).Get(ctx))
	// Output: 7 <nil>
}

func ExampleFunc_Tell() {
	ctx, end := node()
	defer end()
	fmt.Println(deposit.Tell(ctx, accounts.Get("alice"), 7))
	fmt.Println(deposit.Tell(ctx, grains.Grain[Account]{}, 7) != nil) // it could not be queued
	// Output:
	// <nil>
	// true
}

func ExampleFunc_Each() {
	ctx, end := node()
	defer end()
	refs := deposit.Each(ctx, []grains.Grain[Account]{accounts.Get("a"), accounts.Get("b")}, 5)
	fmt.Println(raysys.GetAll(ctx, refs).Values())
	// Output: [5 5] <nil>
}

func ExampleFunc_With() {
	ctx, end := node()
	defer end()
	quick := deposit.With(raysys.Deadline(time.Second)) // instead of 30 s; keep the handle
	fmt.Println(quick.Call(ctx, accounts.Get("alice"), 1).Get(ctx))
	// Output: 1 <nil>
}

func ExampleFunc_ReadOnly() {
	look := grains.Method0(accountsIn(raysys.NewTable()), "look", (*Account).Balance).ReadOnly()
	_ = look // while one read-only turn waits, others may run
	// Output:
}

func ExampleFunc_Idempotent() {
	look := grains.Method0(accountsIn(raysys.NewTable()), "look", (*Account).Balance).Idempotent()
	_ = look // the runtime may repeat a call whose outcome is unknown
	// Output:
}

func accountsIn(t *raysys.Table) grains.Kind[Account] { return grains.DefineIn[Account](t, "account") }

func ExampleFunc_Reentrant() {
	// name.Reentrant() is a handle whose calls are let in where a call chain comes back.
	ctx, end := node()
	defer end()
	fmt.Println(echoName.Reentrant().Call(ctx, echoes.Get("bob")).Get(ctx))
	// Output: my name is bob <nil>
}

func ExampleSelf() {
	ctx, end := node()
	defer end()
	fmt.Println(echoName.Call(ctx, echoes.Get("alice")).Get(ctx)) // Echo.Name uses Self
	_, ok := grains.Self(ctx)
	fmt.Println(ok) // a driver is no grain
	// Output:
	// my name is alice <nil>
	// false
}

func ExampleDeactivate() {
	ctx, end := node()
	defer end()
	carol := accounts.Get("carol")
	deposit.Call(ctx, carol, 5)
	shut.Call(ctx, carol).Get(ctx) // Account.Close uses Deactivate
	fmt.Println(deposit.Call(ctx, carol, 1).Get(ctx))
	shut.Call(ctx, carol).Get(ctx)
	// Output:
	// account/carol goes
	// 1 <nil>
	// account/carol goes
}

func ExampleUnload() {
	ctx, end := node()
	defer end()
	carol := accounts.Get("carol")
	fmt.Println(deposit.Call(ctx, carol, 5).Get(ctx))
	fmt.Println(grains.Unload(ctx, carol))
	fmt.Println(deposit.Call(ctx, carol, 1).Get(ctx)) // a new activation, which no State gave the 5
	shut.Call(ctx, carol).Get(ctx)
	// Output:
	// 5 <nil>
	// account/carol goes
	// <nil>
	// 1 <nil>
	// account/carol goes
}

// Policy is work that needs a place and no identity.
type Policy struct{ loaded bool }

// OnActivate loads what the calls need.
func (p *Policy) OnActivate(context.Context) error { p.loaded = true; return nil }

// Act answers a request.
func (p *Policy) Act(_ context.Context, state float64) (bool, error) {
	return p.loaded && state > 0, nil
}

var (
	policies = grains.Define[Policy]("policy", grains.StatelessWorker(2))
	act      = grains.Method(policies, "act", (*Policy).Act)
)

func ExampleStatelessWorker() {
	ctx, end := node()
	defer end()
	// var policies = grains.Define[Policy]("policy", grains.StatelessWorker(2))
	var refs []raysys.Ref[bool]
	for i := range 4 { // up to two run at a time
		refs = append(refs, act.Call(ctx, policies.Get("cartpole"), float64(i-1)))
	}
	fmt.Println(raysys.GetAll(ctx, refs).Values())
	// Output: [false false true true] <nil>
}

// Fragile is a grain that panics.
type Fragile struct{ calls int }

// Touch breaks at 3.
func (f *Fragile) Touch(context.Context) (int, error) {
	if f.calls++; f.calls == 3 {
		panic("broken")
	}
	return f.calls, nil
}

var (
	vases = grains.Define[Fragile]("vase", grains.OnPanic(grains.RestartOnPanic))
	touch = grains.Method0(vases, "touch", (*Fragile).Touch)
)

func ExampleOnPanic() {
	ctx, end := node()
	defer end()
	// var vases = grains.Define[Fragile]("vase", grains.OnPanic(grains.RestartOnPanic))
	for range 4 {
		v, err := touch.Call(ctx, vases.Get("a")).Get(ctx)
		fmt.Println(v, errors.Is(err, raysys.ErrPanic))
	}
	// Output:
	// 1 false
	// 2 false
	// 0 true
	// 1 false
}

func ExampleIdleAfter() {
	sessions := grains.DefineIn[Account](raysys.NewTable(), "session", grains.IdleAfter(time.Minute))
	_ = sessions // activations go after a minute without calls, instead of 15
	// Output:
}

func ExampleMailbox() {
	table := raysys.NewTable()
	busy := grains.DefineIn[Account](table, "busy", grains.Mailbox(50_000))
	fmt.Println(busy.Name())
	// Output: busy
}

// A Countdown calls the next grain of its own kind.
type Countdown struct{}

// Next counts down over one grain for each number.
func (*Countdown) Next(ctx context.Context, n int) (string, error) {
	if n == 0 {
		return "lift-off", nil
	}
	return next.Call(ctx, countdowns.Get(fmt.Sprint(n-1)), n-1).Get(ctx)
}

// A method that uses its own handle needs the variable to be declared first and set in init: Go refuses a variable whose
// value refers to it.
var (
	countdowns = grains.Define[Countdown]("countdown")
	next       grains.Func[Countdown, int, string]
)

func init() { next = grains.Method(countdowns, "next", (*Countdown).Next) }

// A method that calls itself, on other grains.
func ExampleMethod_recursive() {
	ctx, end := node()
	defer end()
	fmt.Println(next.Call(ctx, countdowns.Get("3"), 3).Get(ctx))
	// Output: lift-off <nil>
}

// A grain that is not on the node of another one, so that one death does not take both.
func ExampleNear() {
	ctx, end := node()
	defer end()
	spare := deposit.With(raysys.Not(grains.Near(accounts.Get("main"))))
	fmt.Println(spare.Call(ctx, accounts.Get("spare"), 5).Get(ctx))
	// Output: 5 <nil>
}
