package system_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
)

// TestJobsAlone: without a cluster a detached task has its name in the memory of the process, by the rules of a cluster.
func TestJobsAlone(t *testing.T) {
	n, err := system.New(system.Config{Table: table, Resources: raysys.Resources{CPU: 4}})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx := n.Context(t.Context())
	submit := func(name, gate string) raysys.Ref[int] { return nightly.With(raysys.Detached(name)).Go(ctx, gate) }
	wants := func(what string, r raysys.Ref[int], want int, is error) {
		t.Helper()
		if v, err := r.Get(ctx); v != want || !errors.Is(err, is) {
			t.Errorf("%s has %d, %v, want %d, %v", what, v, err, want, is)
		}
	}
	find := func(name string) raysys.Ref[int] { return raysys.Lookup[int](ctx, name) }

	gate, second, closed := newGate(), newGate(), newGate()
	first := begun(ctx, t, "job", gate)
	early, joined := find("job"), submit("job", gate)
	wants("other content", submit("job", second), 0, raysys.ErrNameTaken)
	wants("another function", draw.With(raysys.Detached("job")).Go(ctx, gate), 0, raysys.ErrNameTaken)
	wants("no job", find("another"), 0, raysys.ErrNotFound)
	if st, err := n.Status(ctx); err != nil || len(st.Nodes[0].NamedTasks) != 1 || st.Nodes[0].NamedTasks[0].Name != "job" {
		t.Errorf("the status has the jobs %+v, %v", st.Nodes[0].NamedTasks, err)
	}
	openGate(gate)
	v, err := first.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first.Release() // the name keeps the outcome
	wants("who found it while it ran", early, v, nil)
	wants("who joined it", joined, v, nil)
	wants("who finds it", find("job"), v, nil)
	if runs(gate) != 1 {
		t.Errorf("it has run %d times", runs(gate))
	}
	openGate(second)
	w, err := submit("job", second).Get(ctx)
	if err != nil || w == v {
		t.Errorf("the next has %d, %v; the first had %d", w, err, v)
	}
	wants("who finds the next", find("job"), w, nil)

	for _, c := range []struct {
		name string
		end  func(own raysys.Ref[int])
		want error // what Lookup gives then
	}{
		{"own", func(own raysys.Ref[int]) { own.Cancel() }, raysys.ErrCancelled},
		{"found", func(raysys.Ref[int]) { find("found").Cancel() }, raysys.ErrCancelled},
		{"joined", func(raysys.Ref[int]) { submit("joined", closed+"joined").Cancel() }, raysys.ErrCancelled},
		{"forgotten", func(raysys.Ref[int]) {
			if err := raysys.Forget(ctx, "forgotten"); err != nil {
				t.Error(err)
			}
		}, raysys.ErrNotFound},
	} {
		own := begun(ctx, t, c.name, closed+c.name)
		turn := core.FutureOf(own.Link).OwnTurn()
		c.end(own)
		wants("the job that was "+c.name, own, 0, raysys.ErrCancelled)
		wants("its name", find(c.name), 0, c.want)
		if turn.Cancelled() == nil {
			t.Errorf("the job that was %s goes on", c.name)
		}
	}
	if err := raysys.Forget(ctx, "forgotten"); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("a name that was forgotten is forgotten again: %v", err)
	}
	off, _ := system.New(system.Config{Table: table, Lineage: system.LineageOff})
	if err := off.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer off.Close(context.Background())
	if _, err := nightly.With(raysys.Detached("job")).Go(off.Context(t.Context()), gate).Get(off.Context(t.Context())); err == nil || !strings.Contains(err.Error(), "Lineage") {
		t.Errorf("without lineage: %v", err)
	}
}

// TestJobOfADriver: a driver that leaves at once is no attempt of its job.
func TestJobOfADriver(t *testing.T) {
	f, sctx, _ := newWill(t)
	gate := newGate()
	nightly.With(raysys.Detached("short"), raysys.Retries(0)).Go(sctx, gate)
	settles(t, "the task runs", func() bool { return runs(gate) == 1 })
	f.kill("s")
	settles(t, "the task runs again", func() bool { return runs(gate) == 2 })
	openGate(gate)
	f.oneOutcome(t, "short")
}
