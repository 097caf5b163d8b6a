package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/internal/subprocess"
	"github.com/raysys/raysys/testkit"
)

// lives reports whether a process runs. One that waits to be reaped does not.
func lives(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

// family starts a child of grain key with a process of its own, and returns both.
func family(t *testing.T, ctx context.Context, key string) (child, grandchild int) {
	t.Helper()
	f, err := fork.Call(ctx, others.Get(key), none{}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	child, err = ofChild.Call(ctx, others.Get(key)).Get(ctx)
	if err != nil || !lives(child) || !lives(f.PID) {
		t.Fatal(child, f.PID, err)
	}
	return child, f.PID
}

func gone(t *testing.T, pids ...int) {
	t.Helper()
	for i, pid := range pids {
		testkit.Eventually(t, busy, fmt.Sprintf("process %d of %v is gone", i, pids), func() bool { return !lives(pid) })
	}
}

// TestEndsWithTheActivation: and with the node, whether that closes or is killed; what the child has started ends, too.
func TestEndsWithTheActivation(t *testing.T) {
	var a, b, c, d, e, f int
	t.Run("closed", func(t *testing.T) {
		k := testkit.New(t)
		a, b = family(t, k.Context(), "a")
	})
	gone(t, a, b)
	t.Run("killed", func(t *testing.T) {
		k := testkit.New(t, testkit.Nodes(1))
		c, d = family(t, k.Context(), "a")
		k.Cluster().Kill(1)
		gone(t, c, d)
	})
	t.Run("deactivated", func(t *testing.T) {
		k := testkit.New(t)
		ctx := k.Context()
		e, f = family(t, ctx, "a")
		if _, err := ends.Call(ctx, others.Get("a")).Get(ctx); err != nil {
			t.Fatal(err)
		}
		gone(t, e, f)
		callEcho(t, ctx, "a")
	})
}

// TestEndsOutsideTheGroup: a child that has joined the group of its node, and what it has started in a session of its own.
func TestEndsOutsideTheGroup(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	f, err := session.Call(ctx, others.Get("a"), none{}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	child, err := ofChild.Call(ctx, others.Get("a")).Get(ctx)
	if err != nil || !lives(child) || !lives(f.PID) {
		t.Fatal(child, f.PID, err)
	}
	if _, err := leave.Call(ctx, others.Get("a"), none{}).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.With(raysys.Deadline(short)).Call(ctx, others.Get("a"), none{}).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
		t.Error(err)
	}
	callEcho(t, ctx, "a")
	gone(t, child, f.PID)
}

// TestGroupEndsWithTheChild: a child that ends by itself leaves no process behind.
func TestGroupEndsWithTheChild(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	child, grandchild := family(t, ctx, "a")
	if err := syscall.Kill(child, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	gone(t, child, grandchild)
}

// TestEndsWithTheProcess: the kernel kills the child of a node whose process is killed. What the child has started lives on.
func TestEndsWithTheProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=node")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := subprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var child, grandchild int
	if _, err := fmt.Fscan(out, &child, &grandchild); err != nil {
		t.Fatal(err)
	}
	if !lives(child) || !lives(grandchild) {
		t.Error("they do not live:", child, grandchild)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	gone(t, child)
	if !lives(grandchild) {
		t.Log("the kernel has ended the grandchild, too")
	}
	_ = syscall.Kill(grandchild, syscall.SIGKILL)
}

var ends = grains.Action0(others.Kind, "end", func(_ *process.Child, ctx context.Context) error { return grains.Deactivate(ctx) })

// breaker is dropped by a panic, without OnDeactivate.
type breaker struct{ process.Child }

var (
	breakers = grains.Define[breaker]("breaker", grains.OnPanic(grains.RestartOnPanic))
	begin    = grains.Method0(breakers, "begin", func(b *breaker, ctx context.Context) (int, error) {
		err := b.Start(ctx, config(0))
		return b.PID(), err
	})
	breaks = grains.Action0(breakers, "break", func(*breaker, context.Context) error { panic("on purpose") })
)

// TestEndsWhenDropped: a child whose grain's struct a panic has replaced is killed when the struct is collected.
func TestEndsWhenDropped(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	id, err := begin.Call(ctx, breakers.Get("a")).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := breaks.Call(ctx, breakers.Get("a")).Get(ctx); err == nil {
		t.Fatal("it did not panic")
	}
	testkit.Eventually(t, busy, "the child of a dropped struct is gone", func() bool { runtime.GC(); return !lives(id) })
}
