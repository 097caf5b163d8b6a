package faults_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	// outlasts ends when the file is there, and returns its process.
	outlasts = tasks.Define("faults.outlasts", func(ctx context.Context, file string) (int, error) {
		for {
			if _, err := os.Stat(file); err == nil {
				return os.Getpid(), nil
			}
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	// submitsNamed submits outlasts under the name of the file, from the node that it runs on; it returns that node's name.
	submitsNamed = tasks.Define("faults.submitsNamed", func(ctx context.Context, file string) (string, error) {
		t, _, err := core.TurnOf(ctx)
		if err != nil {
			return "", err
		}
		outlasts.With(raysys.Detached(file)).Go(ctx, file)
		return string(t.Job().Node), nil
	})
)

// TestDetachedAfterSIGKILL: the process that submitted a task with a name is killed, and the task ends all the same, with one
// outcome.
func TestDetachedAfterSIGKILL(t *testing.T) {
	p := testkit.Processes(t, 3, testkit.CPU(2), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx, kills := p.Context(), long.Form(2, 30)
	var took spread
	for range kills {
		file := filepath.Join(t.TempDir(), "nightly")
		submitter, err := submitsNamed.Go(ctx, file).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waits := raysys.Lookup[int](ctx, file)
		var victim *testkit.Proc
		for i := range p.Size() {
			if q := p.Proc(i + 1); string(q.Name()) == submitter {
				victim = q
			}
		}
		from := time.Now()
		victim.Kill()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := waits.Get(ctx)
		took = append(took, time.Since(from))
		if again, err2 := raysys.Lookup[int](ctx, file).Get(ctx); n == 0 || again != n || err != nil || err2 != nil {
			t.Fatalf("after the death of %s the task has %d, %v, and then %d, %v", submitter, n, err, again, err2)
		}
		victim.Restart()
		p.Ready()
	}
	figure(t, "the process that submitted a task with a name killed %d times: each has one outcome, %v after the kill", kills, took)
}
