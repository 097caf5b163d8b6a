package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var errBusy = errors.New("busy")

var attempts int

// A shaky task succeeds at its third attempt.
var shaky = tasks.Define0("shaky", func(ctx context.Context) (string, error) {
	if attempts++; attempts < 3 {
		return "", errBusy
	}
	return fmt.Sprintf("attempt %d succeeds", attempts), nil
})

// Errors of the application are values: only those that RetryIf accepts are worth another attempt. The pause before a
// retry doubles from the first to the second duration of Backoff, with jitter, and Retries bounds the attempts.
func Example_retryATask() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		_, err := shaky.Go(ctx).Get(ctx)
		fmt.Println(err)

		patient := shaky.With(
			raysys.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
			raysys.Backoff(time.Millisecond, time.Second),
		)
		attempts = 0
		fmt.Println(patient.Go(ctx).Get(ctx))

		attempts = 0
		_, err = patient.With(raysys.Retries(1)).Go(ctx).Get(ctx)
		fmt.Println(err)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// shaky: busy
	// attempt 3 succeeds <nil>
	// shaky (attempt 2): busy
}
