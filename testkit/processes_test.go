//go:build unix

package testkit_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// What runs in processes is in the process-wide table.
var (
	pid     = tasks.Define0("testkit.pid", func(ctx context.Context) (int, error) { return os.Getpid(), nil })
	environ = tasks.Define("testkit.environ", func(ctx context.Context, name string) (string, error) { return os.Getenv(name), nil })

	farCounters = grains.Define[farCounter]("testkit.counter")
	farAdd      = grains.Method(farCounters, "add", (*farCounter).Add)
	farPID      = grains.Method0(farCounters, "pid", (*farCounter).PID).Idempotent()

	farLives = testkit.NewActivations("far")
)

type farCounter struct {
	n    grains.State[int]
	life *testkit.Activation
}

func (c *farCounter) OnActivate(ctx context.Context) error { c.life = farLives.Begin(ctx); return nil }

func (c *farCounter) Add(ctx context.Context, d int) (int, error) {
	defer c.life.Turn()
	c.n.Value += d
	err := c.n.Write(ctx)
	c.life.Committed(c.n.ETag(), err)
	return c.n.Value, err
}

func (c *farCounter) PID(ctx context.Context) (int, error) { return os.Getpid(), nil }

// hosting is the process on which a grain lives.
func hosting(t *testing.T, p *testkit.Procs, key string) *testkit.Proc {
	t.Helper()
	id, err := farPID.Call(p.Context(), farCounters.Get(key)).Get(p.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Size() {
		if proc := p.Proc(i + 1); proc.Runs() && proc.PID() == id {
			return proc
		}
	}
	t.Fatalf("the grain lives in process %d, which is none of the cluster's", id)
	return nil
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	p := testkit.Processes(t, 2, testkit.CPU(1), testkit.Env("RAYSYS_TESTKIT_EXTRA=x"))
	ctx := p.Context()
	if id, err := pid.Go(ctx).Get(ctx); err != nil || id != p.Proc(1).PID() && id != p.Proc(2).PID() || id == os.Getpid() {
		t.Fatalf("a task ran in process %d: %v", id, err)
	}
	if v, err := environ.Go(ctx, "RAYSYS_TESTKIT_EXTRA").Get(ctx); v != "x" || err != nil {
		t.Errorf("the process has %q: %v", v, err)
	}
	if n, err := farAdd.Call(ctx, farCounters.Get("a"), 5).Get(ctx); n != 5 || err != nil {
		t.Fatal(n, err)
	}

	host := hosting(t, p, "a")
	from := time.Now()
	host.Kill()
	if host.Runs() {
		t.Error("it runs after SIGKILL")
	}
	if hosting(t, p, "a") == host {
		t.Error("the grain did not move")
	}
	t.Logf("failover took %v", time.Since(from))
	if n, err := farAdd.Call(ctx, farCounters.Get("a"), 5).Get(ctx); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	host.Restart()
	p.Ready()

	host = hosting(t, p, "a")
	host.Terminate()
	select {
	case <-host.Exited():
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end after SIGTERM")
	}
	if code := host.ExitCode(); code != 0 {
		t.Errorf("it ended with %d after SIGTERM:\n%s", code, host.Output())
	}
	if n, err := farAdd.Call(ctx, farCounters.Get("a"), 5).Get(ctx); n != 15 || err != nil {
		t.Fatal(n, err)
	}
	lives := p.Activations("far")
	if n, commits := lives.Count(); n < 3 || commits != 3 {
		t.Errorf("%d lives and %d commits were reported", n, commits)
	}
	testkit.SingleActivation(t, lives)
}

func TestPausedProcess(t *testing.T) {
	t.Parallel()
	p := testkit.Processes(t, 2, testkit.TTL(2*time.Second))
	ctx := p.Context()
	if n, err := farAdd.Call(ctx, farCounters.Get("a"), 5).Get(ctx); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	host := hosting(t, p, "a")
	host.Pause()
	from := time.Now()
	for {
		n, err := farAdd.With(raysys.Deadline(time.Second)).Call(ctx, farCounters.Get("a"), 5).Get(ctx)
		if err == nil && n != 10 {
			t.Fatalf("the counter says %d", n)
		}
		if err == nil {
			break
		}
		if time.Since(from) > time.Minute {
			t.Fatal(err)
		}
	}
	t.Logf("failover after SIGSTOP took %v", time.Since(from))
	host.Resume()
	p.Ready()
	if out := host.Output(); !strings.Contains(out, "fenced") {
		t.Errorf("it does not say that it was fenced:\n%s", out)
	}
}

func TestProcessesEndWithTheTest(t *testing.T) {
	t.Parallel()
	consul := testkit.Consul(t)
	var ids []int
	f := &fake{name: "TestX"}
	f.run(func() {
		p := testkit.Processes(f, 2, testkit.Seed(1), testkit.On(consul))
		p.Proc(2).Pause()
		for i := range 2 {
			ids = append(ids, p.Proc(i+1).PID())
		}
		f.Fatalf("on purpose")
	})
	for _, id := range ids {
		if err := syscall.Kill(id, 0); err != syscall.ESRCH {
			t.Errorf("process %d is still there: %v", id, err)
		}
	}
	f.want(t, "on purpose")
	if logs := strings.Join(f.logs, "\n"); !strings.Contains(logs, "process p1 wrote") || !strings.Contains(logs, "node started") {
		t.Errorf("what the processes wrote is not in the log: %s", logs)
	}
}
