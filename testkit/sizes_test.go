package testkit_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/testkit"
)

// sized is what a call carries: bytes, and a reference where it has one.
type sized struct {
	Bytes []byte
	Also  []raysys.Handle[int]
}

type sizer struct{}

// resize returns as many bytes as it gets, each one more, and what the references stand for, one more.
func (*sizer) resize(ctx context.Context, a sized) (sized, error) {
	out := sized{Bytes: make([]byte, len(a.Bytes))}
	for i, b := range a.Bytes {
		out.Bytes[i] = b + 1
	}
	for _, h := range a.Also {
		v, err := h.Ref().Get(ctx)
		if err != nil {
			return sized{}, err
		}
		out.Also = append(out.Also, raysys.Put(ctx, v+1).Handle())
	}
	return out, nil
}

// TestSizes: arguments and results of every size come whole, with references and without, while frames are lost or change
// places, and calls of one caller to one grain are answered each with its own.
func TestSizes(t *testing.T) {
	calls := map[wire.Kind]bool{wire.KindCall: true, wire.KindCalls: true, wire.KindCallResult: true, wire.KindCallResults: true}
	table := raysys.NewTable()
	sizers := grains.DefineIn[sizer](table, "sizer")
	resize := grains.Method(sizers, "resize", (*sizer).resize).Idempotent()
	testkit.Virtual(t, func(k *testkit.Kit) {
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		var sizes []int
		for _, border := range []int{0, 1 << 10, wire.InlineLimit, 1 << 20, wire.ValueLimit} {
			for d := -40; d <= 40; d += 20 {
				if border+d >= 0 {
					sizes = append(sizes, border+d)
				}
			}
		}
		sizes = append(sizes, wire.PushLimit, long.Form(6<<20, 64<<20))
		for _, f := range []struct {
			name  string
			fault func()
		}{
			{"no fault", func() {}},
			{"lost", func() { c.Drop(0.02, nil) }},
			{"out of order", func() { c.Reorder(0.3, func(f testkit.Frame) bool { return calls[wire.Kind(f.Kind)] }) }},
		} {
			f.fault()
			var all []raysys.Ref[sized]
			for i, n := range sizes {
				a := sized{Bytes: bytes.Repeat([]byte{byte(i)}, n)}
				if i%2 == 1 {
					a.Also = []raysys.Handle[int]{raysys.Put(ctx, i).Handle()}
				}
				all = append(all, resize.Call(ctx, sizers.Get(fmt.Sprint(i%5)), a))
			}
			for i, r := range all {
				v, err := r.Get(ctx)
				if err != nil || !bytes.Equal(v.Bytes, bytes.Repeat([]byte{byte(i) + 1}, sizes[i])) || len(v.Also) != i%2 {
					t.Errorf("%s: %d bytes came as %d, with %d references: %v", f.name, sizes[i], len(v.Bytes), len(v.Also), err)
					continue
				}
				for _, h := range v.Also {
					if n, err := h.Ref().Get(ctx); n != i+1 || err != nil {
						t.Errorf("%s: %d bytes and a reference to %d: %v", f.name, sizes[i], n, err)
					}
				}
			}
			c.Heal()
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
