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
	report   = tasks.Define0("schedule.report", func(context.Context) (string, error) { return "all is well", nil })
	billed   = make(chan string, 1)
)

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
