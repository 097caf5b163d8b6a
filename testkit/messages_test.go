package testkit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// TestMessages: an error says of what it speaks, once, and repeats nothing that is long.
func TestMessages(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, _ *testkit.Cluster) {
		ctx := k.Context()
		says := func(what string, err error, want string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
				t.Errorf("%s: the message is %.1500q, want a short one with %q", what, err, want)
			}
		}
		_, err := napTask.With(raysys.Deadline(time.Second)).Go(ctx, time.Hour).Get(ctx)
		says("a task's deadline", err, "nap long: deadline exceeded")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		r := napTask.Go(ctx, time.Hour)
		_, err = r.Get(short)
		says("the deadline of a Get", err, "wait for nap long: deadline exceeded")
		if !errors.Is(err, raysys.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the deadline of a Get: %v", err)
		}
		r.Cancel()
		_, err = napTask.With(raysys.GPU(1000)).Go(ctx, 0).Get(ctx)
		says("no capacity", err, "task nap long")
		if strings.Contains(err.Error(), "task task") {
			t.Errorf("the message names the kind twice: %v", err)
		}
		long := strings.Repeat("k", 1<<20)
		_, err = failCall.Call(ctx, failers.Get(long), 0).Get(ctx)
		says("a long key", err, "the grain's key has 1048576 bytes")
		_, err = tryOnce.With(raysys.CPU(1)).Call(ctx, flakies.Get(long), 0).Get(ctx)
		says("a bad option", err, "bad option")
	})
}
