package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestConsulKilledUnderLoad: Consul is killed for several leases, with its data on disk. What needs no commit goes on
// without an error; named grains answer ErrSuspended from the lease's end, and then everything goes on in the same processes
// with what they had in memory.
func TestConsulKilledUnderLoad(t *testing.T) {
	ttl, away := long.Form(2*time.Second, 10*time.Second), long.Form(7*time.Second, 60*time.Second)
	server := testkit.Consul(t, testkit.OnDisk(), testkit.MinTTL(time.Second))
	p := testkit.Processes(t, 3, testkit.CPU(2), testkit.TTL(ttl), testkit.On(server))
	ctx := p.Context()

	const keys = 30
	before := map[string]int{}
	for i := range keys {
		key := fmt.Sprint("outage", i)
		n, err := plainAdd.Call(ctx, plains.Get(key), i+1).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		before[key] = n
		if n, err := add.Call(ctx, counters.Get(key), i+1).Get(ctx); n != i+1 || err != nil {
			t.Fatal(n, err)
		}
	}
	pids := map[raysys.NodeID]int{}
	for i := range p.Size() {
		pids[p.Proc(i+1).Name()] = p.Proc(i + 1).PID()
	}
	was := statusOf(t, p)

	tasks := startLoad(4, nil, func(_ context.Context, c, i int) error {
		n, err := square.Go(ctx, job{N: i, Wait: time.Millisecond}).Get(ctx)
		return want(n, err, i*i)
	})
	stateless := startLoad(4, nil, func(_ context.Context, c, i int) error {
		s, err := say.Call(ctx, echoes.Get("e"), fmt.Sprint(i)).Get(ctx)
		pause(time.Millisecond)
		return want(s, err, fmt.Sprint(i))
	})
	suspended := classes(raysys.ErrSuspended)
	var down atomic.Int64 // when Consul went, in Unix nanoseconds
	down.Store(time.Now().UnixNano())
	named := startLoad(4, func(err error) string {
		// The lease began up to a third of it before Consul went, and earlier where the machine is slow to renew it.
		if time.Since(time.Unix(0, down.Load())) < long.Form(0, ttl/2) {
			return "before the lease's end"
		}
		return suspended(err)
	}, func(_ context.Context, c, i int) error {
		_, err := plainHost.Call(ctx, plains.Get(fmt.Sprint("outage", i%keys))).Get(ctx)
		pause(5 * time.Millisecond)
		return err
	})
	h := testkit.NewHistory()
	writes := startLoad(4, classes(raysys.ErrSuspended, raysys.ErrDeadline, raysys.ErrOutcomeUnknown), func(_ context.Context, c, i int) error {
		op := h.Begin(c, fmt.Sprint("w", c), testkit.Add(1))
		n, err := add.Call(ctx, counters.Get(fmt.Sprint("w", c)), 1).Get(ctx)
		op.End(n, err)
		pause(200 * time.Millisecond)
		return err
	})

	down.Store(time.Now().UnixNano())
	server.Kill()
	pause(away)
	if _, err := plainHost.Call(ctx, plains.Get("outage0")).Get(ctx); !errors.Is(err, raysys.ErrSuspended) {
		t.Errorf("after %v without Consul a named grain answers %v, want ErrSuspended", away, err)
	}
	server.Start()
	back := time.Now()
	var recovered time.Duration
	for {
		if _, err := add.Call(ctx, counters.Get("outage0"), 0).Get(ctx); err == nil {
			recovered = time.Since(back)
			break
		} else if time.Since(back) > time.Minute {
			t.Fatalf("no State write succeeds %v after Consul came back: %v", time.Since(back), err)
		}
		pause(10 * time.Millisecond)
	}
	p.Ready()
	pause(ttl)
	for _, l := range []*load{tasks, stateless, named, writes} {
		l.end()
	}
	tasks.none(t, "tasks")
	stateless.none(t, "stateless calls")
	named.none(t, "calls of named grains", raysys.ErrSuspended.Error())
	writes.none(t, "State writes", raysys.ErrSuspended.Error(), raysys.ErrDeadline.Error(), raysys.ErrOutcomeUnknown.Error())
	if named.failed()[raysys.ErrSuspended.Error()] == 0 {
		t.Error("no call of a named grain was suspended")
	}
	testkit.Linearizable(t, h, testkit.Register())

	for i := range p.Size() {
		if proc := p.Proc(i + 1); !proc.Runs() || proc.PID() != pids[proc.Name()] {
			t.Errorf("%s did not live through it", proc.Name())
		}
	}
	for name, inc := range statusOf(t, p) {
		if inc != was[name] {
			t.Errorf("%s: incarnation %d became %d", name, was[name], inc)
		}
	}
	for key, n := range before {
		if got, err := plainAdd.Call(ctx, plains.Get(key), 0).Get(ctx); got != n || err != nil {
			t.Errorf("plain grain %s had %d in memory and has %d: %v", key, n, got, err)
		}
	}
	figure(t, "Consul killed for %v under load, TTL %v: %d tasks and %d stateless calls without an error (longest gap %v and %v); %d calls of named grains got ErrSuspended; first State write %v after Consul served again; same processes and incarnations, memory kept, State linearizable",
		away, ttl, tasks.calls.Load(), stateless.calls.Load(), tasks.gap.Round(time.Millisecond), stateless.gap.Round(time.Millisecond),
		named.failed()[raysys.ErrSuspended.Error()], recovered.Round(time.Millisecond))
}

func statusOf(t *testing.T, p *testkit.Procs) map[raysys.NodeID]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	st, err := p.Node().Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := map[raysys.NodeID]uint64{}
	for _, n := range st.Nodes {
		m[n.Name] = n.Incarnation
	}
	return m
}

// TestConsulComesBackEmpty: a Consul in memory is started again and knows nothing of the cluster. Every node stops and says
// why; none goes on as if it led something.
func TestConsulComesBackEmpty(t *testing.T) {
	ttl := 2 * time.Second
	server := testkit.Consul(t, testkit.MinTTL(time.Second))
	p := testkit.Processes(t, 2, testkit.CPU(1), testkit.TTL(ttl), testkit.On(server))
	if n, err := add.Call(p.Context(), counters.Get("a"), 1).Get(p.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	server.Kill()
	server.Start()
	from := time.Now()
	for i := range p.Size() {
		proc := p.Proc(i + 1)
		select {
		case <-proc.Exited():
		case <-time.After(30 * time.Second):
			t.Fatalf("%s goes on", proc.Name())
		}
		if code := proc.ExitCode(); code != system.ExitStoreReplaced {
			t.Errorf("%s ended with %d", proc.Name(), code)
		}
		if out := proc.Output(); !strings.Contains(out, "error: ") || !strings.Contains(out, raysys.ErrStoreReplaced.Error()) {
			t.Errorf("%s does not say why it ended:\n%s", proc.Name(), out)
		}
	}
	select {
	case <-p.Node().Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the driver's node goes on")
	}
	if err := p.Node().Err(); !errors.Is(err, raysys.ErrStoreReplaced) {
		t.Errorf("the driver's node ended with %v", err)
	}
	figure(t, "Consul came back empty: all nodes had stopped with ErrStoreReplaced %v after it served", time.Since(from).Round(time.Millisecond))
}
