package faults_test

import (
	"context"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	publishBlob = tasks.Define("faults.publishBlob", func(ctx context.Context, b blob) (bool, error) {
		_, err := raysys.Put(ctx, b.make(), raysys.Named("newcomer")).Get(ctx)
		return err == nil, err
	})
	lookBlob = tasks.Define("faults.lookBlob", func(ctx context.Context, name string) (uint32, error) {
		b, err := raysys.Lookup[[]byte](ctx, name).Get(ctx)
		return crc32.ChecksumIEEE(b), err
	})
)

// TestOwnerAdmitsNoNewcomer: an owner whose store is away does not admit a node that joined meanwhile. To that node its
// values are unreachable, and come once the store is back. When the owner dies, they are lost, as soon as it is known
// to be dead.
func TestOwnerAdmitsNoNewcomer(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, c := k.Context(), k.Cluster()
		want := blob{7, 300_000}
		r, err1 := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
		alone, err2 := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
		_, err3 := publishBlob.With(on("n1")).Go(ctx, want).Get(ctx)
		if err := errors.Join(err1, err2, err3); err != nil {
			k.T().Fatal(err)
		}
		k.Settle() // every watch of the owner waits for the store, and ends with it
		c.StoreDown(1)
		k.Settle() // they have ended: the owner cannot learn of the newcomer
		c.Restart(4)
		c.Ready()
		asks := map[string]func() (uint32, error){
			"a value": func() (uint32, error) {
				return sumBlob.With(on("n4"), raysys.Retries(0)).Go(ctx, r.Handle()).Get(ctx)
			},
			"a value that is looked at": func() (uint32, error) {
				return viewBlob.With(on("n4"), raysys.Retries(0)).Go(ctx, r.Handle()).Get(ctx)
			},
			"a name": func() (uint32, error) {
				return lookBlob.With(on("n4"), raysys.Retries(0)).Go(ctx, "newcomer").Get(ctx)
			},
		}
		for what, ask := range asks {
			if _, err := ask(); !errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrObjectLost) || !raysys.Retriable(err) {
				k.T().Errorf("%s whose owner lives was to be unreachable to a newcomer that the owner does not admit, and not lost: %v", what, err)
			} else {
				k.T().Logf("%s: %v", what, err)
			}
		}
		if c.Node(1) == nil || c.Node(1).Err() != nil {
			k.T().Fatal("the owner ended: the test shows nothing")
		}
		c.StoreUp(1)
		for what, ask := range asks {
			if sum, err := ask(); err != nil || sum != want.sum() {
				k.T().Errorf("%s was to come once the store is back: %x, %v", what, sum, err)
			}
		}
		c.Kill(1)
		died := time.Now()
		_, err := sumBlob.With(on("n4"), raysys.Retries(0)).Go(ctx, alone.Handle()).Get(ctx)
		// By silence it would be dead after its lease, 10 minutes.
		if took := time.Since(died); !errors.Is(err, raysys.ErrObjectLost) || took > long.Form(time.Minute, 5*time.Second) {
			k.T().Errorf("a value that only the dead owner had was to be lost soon: after %v %v", took, err)
		}
	}, testkit.Nodes(4), testkit.TTL(10*time.Minute), testkit.CPU(2), testkit.Loose(), labelled(system.ObjectConfig{NoSharing: true}))
}
