package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type account struct{ Bills grains.State[int] }

func (a *account) Bill(ctx context.Context, cents int) error {
	a.Bills.Value += cents
	f, _ := schedule.Fired(ctx)
	billed <- fmt.Sprint(f.Name, " for ", cents)
	return nil
}

var (
	accounts = grains.Define[account]("schedule.account", grains.Durable())
	bill     = grains.Action(accounts, "bill", (*account).Bill)
	meter    = grains.Action0(accounts, "meter", (*account).Meter)
	report   = tasks.Define0("schedule.report", func(context.Context) (string, error) { return "all is well", nil })
	billed   = make(chan string, 1)
)

// Meter counts each due time once, also where several have one firing.
func (a *account) Meter(ctx context.Context) error {
	f, _ := schedule.Fired(ctx)
	a.Bills.Value += 1 + f.Missed
	billed <- fmt.Sprint(f.Name, " due ", f.Due.Format(time.DateTime), " counts ", a.Bills.Value)
	return nil
}

// A grain is called each 30 days, and now. Each start of the program may say so again.
func ExampleCall() {
	n, _ := system.New(system.Config{})
	_ = n.Start(context.Background())
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())

	err := schedule.Call(ctx, "alice/bill", schedule.Every(30*24*time.Hour), bill, accounts.Get("alice"), 499)
	fmt.Println(err)
	fmt.Println(schedule.Run(ctx, "alice/bill"), <-billed)
	// Output:
	// <nil>
	// <nil> alice/bill for 499
}

// A task runs each night of a working day; one that is due while the last one runs waits for it.
func ExampleTask0() {
	n, _ := system.New(system.Config{})
	_ = n.Start(context.Background())
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())

	err := schedule.Task0(ctx, "report", schedule.Cron("30 2 * * mon-fri", "Europe/Berlin"), report, schedule.Queue)
	fmt.Println(err)
	info, err := schedule.Get(ctx, "report")
	fmt.Println(info.When, info.Work, err)
	// Output:
	// <nil>
	// 30 2 * * mon-fri Europe/Berlin schedule.report <nil>
}

// Each due time is made: they run side by side, and after an outage up to 1,000 of them are made up for.
func ExampleCatchUp() {
	n, _ := system.New(system.Config{})
	_ = n.Start(context.Background())
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())

	every := []schedule.Option{schedule.Allow, schedule.CatchUp(1000)}
	fmt.Println(schedule.Call0(ctx, "alice/meter", schedule.Every(time.Minute), meter, accounts.Get("alice"), every...))
	info, err := schedule.Get(ctx, "alice/meter")
	fmt.Println(info.When, info.Overlap, info.CatchUp, err)
	// Output:
	// <nil>
	// every 1m0s allow 1000 <nil>
}

// A method asks which firing it is. One that counts 1 + Missed counts each due time once; a time that is past is due at once.
func ExampleFired() {
	n, _ := system.New(system.Config{})
	_ = n.Start(context.Background())
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())

	past := time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC)
	fmt.Println(schedule.Call0(ctx, "bob/meter", schedule.At(past), meter, accounts.Get("bob")))
	fmt.Println(<-billed)
	// Output:
	// <nil>
	// bob/meter due 2020-02-29 12:00:00 counts 1
}

// The clocks of Berlin skip 02:30 on March 29: it is due at 3, and the day after at 02:30 again.
func ExampleWhen_Next() {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	at := time.Date(2026, 3, 28, 12, 0, 0, 0, berlin)
	for range 2 {
		at, _ = schedule.Cron("30 2 * * *", "Europe/Berlin").Next(at)
		fmt.Println(at.Format(time.DateTime))
	}
	// Output:
	// 2026-03-29 03:00:00
	// 2026-03-30 02:30:00
}
