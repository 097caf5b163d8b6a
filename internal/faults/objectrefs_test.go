package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestOwnerKilled: copies serve those who hold references, and without one the error names the dead owner.
func TestOwnerKilled(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), testkit.CPU(2), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	want := blob{5, 3 << 20}
	copied, err1 := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
	alone, err2 := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	holder := holdBlob.With(on("n2")).Go(ctx, copied.Handle())
	<-held
	c.Kill(1)
	if sum, err := sumBlob.With(on("n3")).Go(ctx, copied.Handle()).Get(ctx); err != nil || sum != want.sum() {
		t.Errorf("what n2 has a copy of: %x, %v", sum, err)
	}
	if _, err := sumBlob.With(on("n3")).Go(ctx, alone.Handle()).Get(ctx); !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "n1") {
		t.Errorf("what nobody else has: %v", err)
	}
	if _, err := alone.Get(ctx); !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "n1") {
		t.Errorf("what nobody else has, here: %v", err)
	}
	holder.Cancel()
	copied.Release()
	alone.Release()
	empty(t, k.Node(), c.Node(2), c.Node(3))
}

// TestHoldersKilled: an owner frees what only dead nodes referred to.
func TestHoldersKilled(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), testkit.CPU(8), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	var holders []raysys.Ref[bool]
	for i := range 6 {
		r, err := putBlob.With(on("n1")).Go(ctx, blob{byte(i), 200_000}).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		holders = append(holders, holdBlob.With(on([]string{"n2", "n3"}[i%2]), raysys.Retries(0)).Go(ctx, r.Handle()))
		<-held
		r.Release()
	}
	if s := c.Node(1).Objects(); s.Objects != 6 {
		t.Errorf("the owner has %d objects while others hold them", s.Objects)
	}
	c.Kill(2)
	c.Kill(3)
	for _, h := range holders {
		h.Cancel()
	}
	holders = nil
	empty(t, k.Node(), c.Node(1))
}

// TestObjectSoak: references go round at random, nodes are killed, and in the end nothing is left anywhere.
func TestObjectSoak(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), testkit.CPU(4), testkit.Seed(long.Seed()), labelled(system.ObjectConfig{Memory: 4 << 20}))
	ctx, c := k.Context(), k.Cluster()
	var values, lost, kills atomic.Int64
	between := long.Form(time.Second, 2*time.Second)
	end := time.Now().Add(long.Form(4*between, 5*time.Minute))
	seed := k.Seed()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for time.Now().Before(end) {
				limited, cancel := context.WithTimeout(ctx, patience)
				want := blob{byte(rng.Uint32()), rng.IntN(600_000)}
				var r raysys.Ref[[]byte]
				var err error
				switch rng.IntN(3) {
				case 0:
					r = raysys.Put(limited, want.make())
				case 1:
					r = makeBlob.Go(limited, want)
				case 2:
					if r, err = putBlob.Go(limited, want).Get(limited); err != nil {
						note(t, err, &lost)
						cancel()
						continue
					}
				}
				for range 1 + rng.IntN(3) {
					if rng.IntN(4) == 0 {
						err := raysys.View(limited, r, want.is)
						note(t, err, &lost)
						continue
					}
					task := sumBlob
					if rng.IntN(2) == 0 {
						task = viewBlob
					}
					sum, err := task.Go(limited, r.Handle()).Get(limited)
					switch {
					case err != nil:
						note(t, err, &lost)
					case sum != want.sum():
						t.Errorf("WRONG BYTES of %v", want)
					default:
						values.Add(1)
					}
				}
				if rng.IntN(2) == 0 {
					r.Release()
				}
				if rng.IntN(8) == 0 {
					runtime.GC()
				}
				cancel()
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 99))
		for {
			pause(between)
			if kills.Load() > 0 && !time.Now().Add(between).Before(end) {
				return
			}
			c.Restart(1 + rng.IntN(3))
			kills.Add(1)
		}
	})
	wg.Wait()
	c.Ready()
	empty(t, k.Node(), c.Node(1), c.Node(2), c.Node(3))
	figure(t, "%d values passed around three nodes with %d kills: %d typed losses, 0 wrong bytes, 0 hangs; afterwards 0 objects and 0 references anywhere", values.Load(), kills.Load(), lost.Load())
	if values.Load() == 0 || kills.Load() == 0 {
		t.Error("nothing happened")
	}
}

// note counts a typed failure, and fails the test for another.
func note(t *testing.T, err error, lost *atomic.Int64) {
	switch {
	case err == nil:
	case errors.Is(err, raysys.ErrDeadline), strings.Contains(err.Error(), "WRONG BYTES"), !typed(err):
		t.Error(err)
	default:
		lost.Add(1)
	}
}
