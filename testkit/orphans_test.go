package testkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// parcel is a value with a reference inside.
type parcel struct {
	Name    string
	Content raysys.Handle[[]byte]
}

// open checks the content, which is too large to travel with the reference.
func (p parcel) open(ctx context.Context) error {
	b, err := p.Content.Ref().Get(ctx)
	if err == nil && len(b) != parcelSize {
		err = errors.New("the content has another size")
	}
	return err
}

const parcelSize = 200 << 10

type depot struct{ n int }

func (d *depot) Take(ctx context.Context, p parcel) (parcel, error) {
	d.n++
	return parcel{p.Name, raysys.Put(ctx, make([]byte, parcelSize)).Handle()}, p.open(ctx)
}

var (
	forward = tasks.DefineIn(table, "forward", func(ctx context.Context, p parcel) (parcel, error) {
		return parcel{p.Name, raysys.Put(ctx, make([]byte, parcelSize)).Handle()}, p.open(ctx)
	})
	depots = grains.DefineIn[depot](table, "depot")
	take   = grains.Method(depots, "take", (*depot).Take)
)

// TestNoOrphansInsideValues: what strict mode watches is no work that is left, although references inside it are in use.
func TestNoOrphansInsideValues(t *testing.T) {
	kits := map[string][]testkit.Option{"in process": nil, "three nodes": {testkit.Nodes(3)}}
	if long.Form(false, true) {
		kits["one node"] = []testkit.Option{testkit.Nodes(1)}
	}
	for name, opts := range kits {
		opts = append(opts, testkit.Table(table))
		t.Run(name, func(t *testing.T) { passParcels(t, testkit.New(t, opts...)) })
		t.Run(name+", virtual", func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) { passParcels(k.T(), k) }, opts...)
		})
	}
}

func passParcels(t testing.TB, k *testkit.Kit) {
	ctx := k.Context()
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		p := parcel{name, raysys.Put(ctx, make([]byte, parcelSize)).Handle()}
		back, err := forward.Go(ctx, p).Get(ctx)
		if err == nil {
			err = back.open(ctx)
		}
		if err != nil {
			t.Fatalf("forward: %v", err)
		}
		if back, err = take.Call(ctx, depots.Get(name), back).Get(ctx); err == nil {
			err = back.open(ctx)
		}
		if err != nil {
			t.Fatalf("take: %v", err)
		}
	}
	testkit.NoOrphans(k)
}
