package guide_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	errNoFunds = errors.New("no funds")
	_          = raysys.RegisterError("guide.errors.no-funds", errNoFunds)
)

type limitError struct{ Limit int }

func (e *limitError) Error() string { return fmt.Sprintf("the limit is %d", e.Limit) }

var _ = raysys.Register[*limitError]("guide.errors.limit")

var errHere = errors.New("known here only") // not registered

var pay = tasks.Define("guide.errors.pay", func(ctx context.Context, amount int) (int, error) {
	switch {
	case amount > 100:
		return 0, &limitError{Limit: 100}
	case amount > 50:
		return 0, fmt.Errorf("pay %d: %w", amount, errNoFunds)
	}
	return 50 - amount, nil
})

var secret = tasks.Define0("guide.errors.secret", func(ctx context.Context) (int, error) { return 0, errHere })

func TestErrorsOfYourOwn(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()

	_, err := pay.Go(ctx, 60).Get(ctx)
	var failed *raysys.TaskError
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	t.Log(failed.Function, failed.Task, failed.Node, failed.Attempt, failed.Err)
	if !errors.Is(err, errNoFunds) { // registered: it holds wherever the task ran
		t.Error(err)
	}

	_, err = pay.Go(ctx, 200).Get(ctx)
	var limit *limitError
	if !errors.As(err, &limit) || limit.Limit != 100 {
		t.Error(err)
	}

	if failed.Function != "guide.errors.pay" || failed.Attempt != 1 || failed.Task.IsZero() || failed.Node == "" {
		t.Errorf("%#v", failed)
	}
	if err.Error() != "guide.errors.pay: the limit is 100" {
		t.Error(err)
	}
	if _, err := secret.Go(ctx).Get(ctx); errors.Is(err, errHere) || !strings.Contains(err.Error(), "known here only") {
		t.Error(err)
	}
}

var divide = tasks.Define2("guide.errors.divide", func(ctx context.Context, a, b int) (int, error) { return a / b, nil })

func TestErrorsPanic(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()

	_, err := divide.Go(ctx, 1, 0).Get(ctx)
	var p *raysys.PanicError
	if !errors.Is(err, raysys.ErrPanic) || !errors.As(err, &p) {
		t.Fatal(err)
	}
	t.Log(p.Value)             // runtime error: integer divide by zero
	t.Logf("%+v", err)         // the text, and the stack below it
	stack := raysys.Stack(err) // the stack alone

	if !strings.Contains(string(stack), "errors_test.go") || !strings.Contains(fmt.Sprintf("%+v", err), "errors_test.go") {
		t.Errorf("%s", stack)
	}
	if !strings.Contains(fmt.Sprint(p.Value), "divide by zero") {
		t.Errorf("%T %v", p.Value, p.Value)
	}
}

var flaky = tasks.Define0("guide.errors.flaky", func(ctx context.Context) (int, error) {
	if raysys.Attempt(ctx) < 3 {
		return 0, errNoFunds
	}
	return raysys.Attempt(ctx), nil
})

func TestErrorsRetryIf(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		again := flaky.With(raysys.RetryIf(func(err error) bool { return errors.Is(err, errNoFunds) }))
		n, err := again.Go(ctx).Get(ctx)
		if n != 3 || err != nil {
			k.T().Error(n, err)
		}
		if _, err := flaky.Go(ctx).Get(ctx); !errors.Is(err, errNoFunds) {
			k.T().Error(err)
		}
	})
}

var endless = tasks.Define0("guide.errors.endless", func(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
})

func TestErrorsEnds(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()

		_, err := endless.With(raysys.Deadline(time.Second)).Go(ctx).Get(ctx)
		if !errors.Is(err, raysys.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}

		r := endless.Go(ctx)
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err = r.Get(short) // this wait ends; the task goes on
		if !errors.Is(err, raysys.ErrDeadline) || raysys.PhaseOf(r) != raysys.PhasePending {
			t.Error(err)
		}

		r.Cancel() // this ends the task, and what it has submitted
		_, err = r.Get(ctx)
		if !errors.Is(err, raysys.ErrCancelled) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// ran says what the caller of a method knows when the call has failed with err.
func ran(err error) string {
	var failed *raysys.TaskError
	switch {
	case errors.Is(err, raysys.ErrOutcomeUnknown):
		return "it may have run"
	case errors.As(err, &failed):
		return "it ran, and failed"
	case errors.Is(err, raysys.ErrNotDelivered), errors.Is(err, raysys.ErrOverloaded):
		return "it did not run"
	}
	return "it may have run" // a deadline, a cancellation, ErrSuspended, ErrMoved, ...
}

type wallet struct{}

func (*wallet) Pay(ctx context.Context, n int) (int, error) { return 0, errNoFunds }

var (
	wallets = grains.Define[wallet]("guide.errors.wallet")
	payFrom = grains.Method(wallets, "pay", (*wallet).Pay)
)

func TestErrorsRan(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	_, err := payFrom.Call(ctx, wallets.Get("a"), 1).Get(ctx)
	for want, err := range map[string]error{
		"it ran, and failed": err,
		"it may have run":    fmt.Errorf("%w: %w", raysys.ErrSuspended, raysys.ErrOutcomeUnknown),
		"it did not run":     fmt.Errorf("call: %w", raysys.ErrOverloaded),
	} {
		if got := ran(err); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
	if ran(grains.ErrReplyGone) != "it may have run" || ran(raysys.ErrDeadline) != "it may have run" {
		t.Error("ErrReplyGone, ErrDeadline")
	}
	// A table of the page: Retriable says yes to five.
	for err, want := range map[error]bool{
		raysys.ErrOverloaded: true, raysys.ErrNotDelivered: true, raysys.ErrSuspended: true, raysys.ErrUnreachable: true, raysys.ErrStoreFull: true,
		raysys.ErrOutcomeUnknown: false, raysys.ErrNodeDead: false, raysys.ErrMoved: false, raysys.ErrNoCapacity: false, raysys.ErrFenced: false,
		raysys.ErrObjectLost: false, grains.ErrETag: false, grains.ErrActivation: false,
	} {
		if raysys.Retriable(err) != want {
			t.Errorf("Retriable(%v) is %v", err, !want)
		}
	}
}

func TestErrorsOfMany(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	refs := pay.Map(ctx, []int{10, 60, 20})
	for i, o := range raysys.GetAll(ctx, refs) {
		if o.Err != nil {
			t.Log("payment", i, "failed:", o.Err)
		}
	}
	values, err := raysys.GetAll(ctx, refs).Values() // every value, or the first error
	if err == nil || !errors.Is(err, errNoFunds) {
		t.Error(values, err)
	}
	// A failure goes through what depends on it, which does not run.
	_, err = pay.On(ctx, refs[1]).Get(ctx)
	if !errors.Is(err, errNoFunds) {
		t.Error(err)
	}
}

// TestErrorsTable: the page's table has every sentinel of the two packages, and says of each what Retriable says.
func TestErrorsTable(t *testing.T) {
	page, err := os.ReadFile("errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) == 4 && strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[0], "|` ")] = strings.Trim(cells[3], "| ")
		}
	}
	for pkg, file := range map[string]string{"": "../../errors.go", "grains.": "../../grains/errors.go"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:var|\t)\s*(Err\w+) +=`).FindAllStringSubmatch(string(code), -1) {
			name := pkg + m[1]
			want := "no"
			if strings.Contains("ErrOverloaded ErrNotDelivered ErrSuspended ErrUnreachable ErrStoreFull", name) {
				want = "yes"
			}
			if rows[name] != want {
				t.Errorf("errors.md says %q of %s, want %q", rows[name], name, want)
			}
			delete(rows, name)
		}
	}
	for name := range rows {
		t.Errorf("errors.md has %s, which the packages have not", name)
	}
}
