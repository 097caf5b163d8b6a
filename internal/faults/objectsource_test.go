package faults_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestSourceKilled: the node that an object comes from is killed at 10, 50 and 90 % of the transfer, alone and with a
// copy elsewhere. The receiver ends with the value or with a typed error, soon; with a copy it ends with the value.
func TestSourceKilled(t *testing.T) {
	const chunks = 20
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), testkit.CPU(2), labelled(system.ObjectConfig{NoSharing: true}))
	ctx, c := k.Context(), k.Cluster()
	values, lost := 0, 0
	var took spread
	for round := range long.Form(6, 200) {
		size := chunks*objectstore.ChunkSize - round*77
		want := blob{byte(round), size}
		at := []int{2, 10, 18}[round%3]
		copied := round%2 == 1
		r, err := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		var holder raysys.Ref[bool]
		if copied {
			holder = holdBlob.With(on("n2")).Go(ctx, r.Handle())
			<-held
		}
		sent, reached := atomic.Int64{}, make(chan struct{})
		c.Drop(1, func(f testkit.Frame) bool { // what is behind the last chunk that shall arrive does not
			if f.Kind != uint8(wire.KindChunk) || f.From != "n1" {
				return false
			}
			n := sent.Add(1)
			if n == int64(at) {
				close(reached)
			}
			return n > int64(at)
		})
		got := make(chan error, 1)
		limited, cancel := context.WithTimeout(ctx, patience)
		from := time.Now()
		go func() {
			// The receiver is n3, or the test's own node.
			if round%4 < 2 {
				sum, err := sumBlob.With(on("n3"), raysys.Retries(0)).Go(limited, r.Handle()).Get(limited)
				if err == nil && sum != want.sum() {
					err = errors.New("WRONG BYTES")
				}
				got <- err
				return
			}
			b, err := r.Get(limited)
			if err == nil {
				err = want.is(b)
			}
			got <- err
		}()
		var outcome error
		select {
		case <-reached:
			c.Kill(1)
			outcome = <-got
		case outcome = <-got: // from the copy alone
			c.Kill(1)
		}
		cancel()
		took = append(took, time.Since(from))
		switch {
		case outcome == nil:
			values++
		case strings.Contains(outcome.Error(), "WRONG BYTES"), !errors.Is(outcome, raysys.ErrObjectLost), copied:
			t.Errorf("round %d, killed after chunk %d, copy %v: %v", round, at, copied, outcome)
		default:
			if lost++; lost == 1 {
				t.Log(outcome)
			}
		}
		if copied {
			holder.Cancel()
		}
		r.Release()
		c.Heal()
		c.Restart(1)
		c.Ready()
	}
	if values == 0 || lost == 0 {
		t.Errorf("%d values and %d losses: not both were tried", values, lost)
	}
	figure(t, "a source killed at 10, 50, 90 %% of a transfer of 20 MiB, %d times: %d values (all that had a copy elsewhere), %d `ErrObjectLost`, 0 wrong bytes, 0 hangs; %v", len(took), values, lost, took)
	empty(t, k.Node(), c.Node(1), c.Node(2), c.Node(3))
}

// TestCopyMadeMeanwhile: a copy that did not exist when a transfer began serves it when the source dies.
func TestCopyMadeMeanwhile(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), testkit.CPU(2), labelled(system.ObjectConfig{NoSharing: true}))
	ctx, c := k.Context(), k.Cluster()
	want := blob{1, 20 * objectstore.ChunkSize} // so large that several sources are looked for at once
	r, err := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{})
	sent := 0
	c.Drop(1, func(f testkit.Frame) bool {
		if f.Kind != uint8(wire.KindChunk) || f.From != "n1" || f.To != "n3" {
			return false
		}
		if sent++; sent == 4 {
			close(reached)
		}
		return sent > 4
	})
	sum := sumBlob.With(on("n3"), raysys.Retries(0)).Go(ctx, r.Handle())
	<-reached
	holder := holdBlob.With(on("n2")).Go(ctx, r.Handle())
	<-held
	c.Kill(1)
	if got, err := sum.Get(ctx); err != nil || got != want.sum() {
		t.Errorf("%x, %v", got, err)
	}
	holder.Cancel()
	r.Release()
	empty(t, k.Node(), c.Node(2), c.Node(3))
}

// TestSourceProcessKilled is TestSourceKilled with SIGKILL and real connections.
func TestSourceProcessKilled(t *testing.T) {
	long.Only(t)
	size := 512 << 20
	p := testkit.Processes(t, 2, testkit.Loose(), testkit.Env("RAYSYS_NO_SHARING=1"), testkit.EnvOf(func(i int) []string {
		return []string{"RAYSYS_LABELS=node=" + []string{"", "n1", "n2"}[i]}
	}))
	ctx := p.Context()
	fetch := func(r raysys.Ref[[]byte], want blob) error {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return raysys.View(limited, r, want.is)
	}
	put := func(seed int) (raysys.Ref[[]byte], blob) {
		t.Helper()
		b := blob{byte(seed), size}
		r, err := putBlob.With(on("n1")).Go(ctx, b).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return r, b
	}
	var whole time.Duration // of a transfer, the encoding and the check included
	for seed := range 2 {   // the first makes the connection
		r, want := put(seed)
		from := time.Now()
		if err := raysys.View(ctx, r, func([]byte) error { whole = time.Since(from); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := fetch(r, want); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	values, lost := 0, 0
	for round := range 30 {
		r, want := put(round)
		got := make(chan error, 1)
		go func() { got <- fetch(r, want) }()
		<-time.After(whole * time.Duration([]int{10, 50, 90}[round%3]) / 100)
		p.Proc(1).Kill()
		switch err := <-got; {
		case err == nil:
			values++
		case !errors.Is(err, raysys.ErrObjectLost):
			t.Errorf("round %d: %v", round, err)
		default:
			if lost++; lost == 1 {
				t.Log(err)
			}
		}
		r.Release()
		p.Proc(1).Restart()
		p.Ready()
	}
	figure(t, "a source process killed by SIGKILL at 10, 50, 90 %% of a transfer of %d MiB (%v), %d times: %d values, %d `ErrObjectLost`, 0 wrong bytes, 0 hangs", size>>20, whole.Round(time.Millisecond), values+lost, values, lost)
	if lost == 0 {
		t.Error("no transfer was cut: all were over before the kill")
	}
	empty(t, p.Node())
}
