package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestDurableCountersInAStorm: what holds for counters in grains.State holds for those whose turns are transactions, under the
// same faults; and a call whose way broke is repeated by the runtime, so that few end with an unknown outcome.
func TestDurableCountersInAStorm(t *testing.T) {
	ttl := 10 * time.Second
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		prefix := fmt.Sprintf("storm%d-", runs.Add(1))
		keys := long.Form(60, 1000)
		g := startCounting(k, durable, prefix, keys, long.Form(12, 36), long.Form(400*time.Millisecond, time.Second))
		s := storm{
			c: c, rng: k.Rand(), ttl: ttl,
			partitions: long.Form(6, 100), outages: long.Form(3, 50), pauses: long.Form(3, 50), expiries: long.Form(4, 50), kills: long.Form(4, 50),
		}
		s.blow()
		k.Advance(3 * ttl)
		g.end()
		c.Ready()
		g.readAll(t, k, prefix, keys)
		testkit.Linearizable(t, g.h, testkit.Register())
		answered, refused, open := g.h.Counts()
		if t.Failed() {
			return
		}
		figure(t, "%d durable counters under %d partitions, %d outages of the store for one node, %d pauses longer than the lease, %d session expiries, %d kills: %d calls answered, %d refused, %d open, linearizable",
			keys, s.partitions, s.outages, s.pauses, s.expiries, s.kills, answered, refused, open)
		if answered < keys {
			t.Errorf("%d calls were answered: too few to show anything", answered)
		}
		testkit.NoOrphans(k)
	}, testkit.Nodes(long.Form(3, 5)), testkit.TTL(ttl), testkit.Seed(long.Seed()))
}

// TestDurableWithoutStore: a durable call waits while the store is away, and counts when it is back; at the end of the
// lease it fails with ErrSuspended. Mostly it matches ErrOutcomeUnknown too; not where its commit waited behind another one and began
// when the lease was out, so that it was not made.
func TestDurableWithoutStore(t *testing.T) {
	ttl := 10 * time.Second
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c, ctx := k.T(), k.Cluster(), k.Context()
		g := vaults.Get(fmt.Sprintf("away%d", runs.Add(1)))
		patient := vaultAdd.With(raysys.Deadline(5 * time.Minute))
		if n, err := patient.Call(ctx, g, step{N: 1}).Get(ctx); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		all := []int{0, 1, 2, 3}
		c.StoreDown(all...)
		short := patient.Call(ctx, g, step{N: 10})
		k.Advance(2 * time.Second)
		if raysys.PhaseOf(short) == raysys.PhaseReady {
			t.Error("a call was answered while its commit could not be made")
		}
		c.StoreUp(all...)
		if n, err := short.Get(ctx); n != 11 || err != nil {
			t.Errorf("after the store is back: %d, %v, want 11", n, err)
		}
		c.StoreDown(all...)
		long := patient.Call(ctx, g, step{N: 100})
		k.Advance(ttl + 3*time.Second) // the sessions live for twice as long
		if raysys.PhaseOf(long) == raysys.PhasePending {
			t.Error("at the end of the lease the call still waits")
		}
		if _, err := long.Get(ctx); !errors.Is(err, raysys.ErrSuspended) {
			t.Errorf("at the end of the lease: %v, want ErrSuspended", err)
		}
	}, testkit.Nodes(3), testkit.TTL(ttl))
}

// TestDurableAfterSIGKILL: the process of a durable grain is killed right after it acknowledged a call, and while a call is
// on its way, runs, or is being committed. What was acknowledged is there, and a call that the runtime repeats counts once.
func TestDurableAfterSIGKILL(t *testing.T) {
	p := testkit.Processes(t, 3, testkit.CPU(1), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx := p.Context()
	rounds := long.Form(5, 300)
	call := vaultAdd.With(raysys.Deadline(2 * time.Minute))
	read := vaultRead.With(raysys.Deadline(2 * time.Minute))
	lost, twice, n := 0, 0, 0
	var after, before spread
	g := vaults.Get("x")
	check := func(what string, got int, err error, want int) {
		switch {
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case got < want:
			lost++
		case got > want:
			twice++
		}
	}
	for i := range 2 * rounds {
		victim := vaultProc(ctx, t, p, "x")
		from := time.Now()
		if i%2 == 0 {
			got, err := call.Call(ctx, g, step{N: 1}).Get(ctx)
			victim.Kill()
			n++
			check("the call before the kill", got, err, n)
			got, err = read.Call(ctx, g).Get(ctx)
			check("the read after the kill", got, err, n)
			after = append(after, time.Since(from))
		} else {
			// The kill comes between the call's way to the grain and the commit's way back.
			r := call.Call(ctx, g, step{N: 1, Wait: time.Duration(i%10) * 500 * time.Microsecond})
			pause(time.Duration(i%16) * 300 * time.Microsecond)
			victim.Kill()
			n++
			got, err := r.Get(ctx)
			check("the call during the kill", got, err, n)
			before = append(before, time.Since(from))
		}
		victim.Restart()
		p.Ready()
		if t.Failed() || lost+twice > 0 {
			break
		}
	}
	got, err := read.Call(ctx, g).Get(ctx)
	check("the last read", got, err, n)
	if lost+twice > 0 {
		t.Errorf("%d acknowledged calls were lost, %d counted twice", lost, twice)
	}
	figure(t, "durable calls, %d SIGKILLs of the host after an acknowledgement (the value is read elsewhere: %v), %d before it (the call ends: %v): %d lost, %d twice",
		len(after), after, len(before), before, lost, twice)
}

// vaultProc is the process that a vault lives in.
func vaultProc(ctx context.Context, t *testing.T, p *testkit.Procs, key string) *testkit.Proc {
	t.Helper()
	h, err := vaultHost.Call(ctx, vaults.Get(key)).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return procWith(t, p, h.PID)
}

// procWith is the process of the cluster with that number.
func procWith(t *testing.T, p *testkit.Procs, pid int) *testkit.Proc {
	t.Helper()
	for i := range p.Size() {
		if proc := p.Proc(i + 1); proc.Runs() && proc.PID() == pid {
			return proc
		}
	}
	t.Fatalf("process %d is none of the cluster's", pid)
	return nil
}
