package ledger

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
)

// inside is work that a test pushes into bundles.
type inside struct {
	hold    *Hold
	evicted int
	cause   error
}

func (w *inside) Over() bool        { return w.evicted > 0 }
func (w *inside) Begins(*Need) bool { return true }
func (w *inside) Class() core.Class { return core.Normal }
func (w *inside) Job() *core.Job    { return nil }
func (w *inside) Grant(h *Hold)     { w.hold = h }
func (w *inside) Evict(cause error, _ bool) {
	w.evicted++
	w.cause = cause
}

func in(index int, n Need) Need {
	n.Bundle = core.Bundle{Group: "g", Index: index}
	return n
}

// carve carves one bundle.
func carve(l *Line, name core.Bundle, n Need) (*Bundle, Shortage) {
	list, _, short := l.Carve(Part{name, n})
	if !short.Empty() {
		return nil, short
	}
	return list[0], short
}

// TestBundle: work of a group draws from its bundle, with the devices of the bundle, and waits there while the node is free.
func TestBundle(t *testing.T) {
	l := newLine(Need{CPU: 8000}, eight("H100"))
	fresh := l.Free()
	b, short := carve(l, core.Bundle{Group: "g"}, Need{CPU: 2000, GPU: 2000})
	if !short.Empty() {
		t.Fatal("a free node refuses a bundle")
	}
	if _, short := carve(l, core.Bundle{Group: "g", Index: 1}, Need{CPU: 7000}); !short.CPU {
		t.Error("a bundle is refused for want of CPU, and is told so")
	}
	if got := l.Free().CPU; got != 6000 {
		t.Errorf("beside a bundle of 2 CPUs %d thousandths of 8 are free", got)
	}
	var w [3]inside
	for i := range w {
		if ok, _ := l.PushIn(in(core.AnyBundle, Need{CPU: 1000, GPU: 1000}), &w[i]); !ok {
			t.Fatal("the bundle is not here")
		}
	}
	if w[0].hold == nil || w[1].hold == nil || w[2].hold != nil {
		t.Fatal("two of three have room in a bundle for two")
	}
	if diff := cmp.Diff([]string{"GPU-0", "GPU-1"}, append(l.Devices(w[0].hold), l.Devices(w[1].hold)...)); diff != "" {
		t.Errorf("other devices are held than those of the bundle:\n%s", diff)
	}
	if ok, never := l.PushIn(in(1, Need{CPU: 1000}), new(inside)); ok || !never.Empty() {
		t.Errorf("a bundle that is not here takes work, or is too small: %v", never)
	}
	if ok, never := l.PushIn(in(0, Need{CPU: 3000}), new(inside)); ok || !never.CPU {
		t.Errorf("a bundle that is too small takes work, or is not here: %v", never)
	}
	l.Return(w[0].hold)
	if w[2].hold == nil {
		t.Error("work waits in a bundle with room")
	}
	gone, over := errors.New("gone"), false
	b.Close(gone, func() { over = true })
	if w[1].cause != gone || w[2].cause != gone || over || l.Free().CPU != 6000 {
		t.Error("what runs is evicted, and the room is the bundle's until it has returned")
	}
	l.Return(w[1].hold)
	l.Return(w[2].hold)
	if diff := cmp.Diff(fresh, l.Free()); diff != "" || !over {
		t.Errorf("the room of a closed bundle is not free (told: %v):\n%s", over, diff)
	}
}

// TestRemoveInBundles: work that waits in a bundle is removed with the rest, and nothing else.
func TestRemoveInBundles(t *testing.T) {
	l := newLine(Need{CPU: 2000}, nil)
	if _, short := carve(l, core.Bundle{Group: "g"}, Need{CPU: 1000}); !short.Empty() {
		t.Fatal("a free node refuses a bundle")
	}
	var runs, waits, outside inside
	l.PushIn(in(0, Need{CPU: 1000}), &runs)
	l.PushIn(in(0, Need{CPU: 1000}), &waits)
	l.Push(Need{CPU: 2000}, &outside)
	removed := l.Remove(func(w Work) bool { return w != Work(&outside) })
	if len(removed) != 1 || removed[0] != Work(&waits) || l.Waits.Load() != 1 {
		t.Errorf("%d of one were removed, and %d of one wait", len(removed), l.Waits.Load())
	}
	if l.Return(runs.hold); waits.hold != nil {
		t.Error("work that was removed from a bundle is granted there")
	}
}

// TestBundleLaws: whatever is carved, pushed, returned and closed, no bundle grants more than it has, work that was pushed into
// one is granted or evicted, and in the end all of the node is free.
func TestBundleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := Need{CPU: 8000, Memory: 1 << 20}
		l := newLine(total, eight("H100"))
		fresh := l.Free()
		type open struct {
			*Bundle
			has  Need
			work []*inside
		}
		var bundles []*open
		var left []*inside // of closed bundles
		told := 0
		closed := 0
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step == 0:
				n := Need{CPU: 1000 * rapid.Int64Range(0, 4).Draw(t, "cpu"), GPU: 500 * rapid.SampledFrom([]int64{0, 1, 2, 4}).Draw(t, "gpu"), Memory: rapid.Int64Range(0, 1<<19).Draw(t, "memory")}
				if b, short := carve(l, core.Bundle{Group: "g", Index: len(bundles) + closed}, n); short.Empty() {
					bundles = append(bundles, &open{Bundle: b, has: n})
				}
			case len(bundles) == 0:
			case step == 4:
				i := rapid.IntRange(0, len(bundles)-1).Draw(t, "closed")
				b := bundles[i]
				bundles = append(bundles[:i], bundles[i+1:]...)
				closed++
				b.Close(errors.New("gone"), func() { told++ })
				for _, w := range b.work {
					if w.evicted != 1 {
						t.Fatalf("work of a closed bundle was evicted %d times", w.evicted)
					}
					if w.hold != nil {
						left = append(left, w)
					}
				}
			case step == 1 || step == 2:
				b := bundles[rapid.IntRange(0, len(bundles)-1).Draw(t, "bundle")]
				n := Need{CPU: 500 * rapid.Int64Range(0, 6).Draw(t, "wants cpu"), GPU: 500 * rapid.SampledFrom([]int64{0, 1, 2}).Draw(t, "wants gpu")}
				n.Bundle = b.name
				w := &inside{}
				if ok, _ := l.PushIn(n, w); ok {
					b.work = append(b.work, w)
				} else if ever := b.Ever(n); ever.Empty() {
					t.Fatalf("a bundle of %v refuses %v", b.has, n)
				}
			default:
				b := bundles[rapid.IntRange(0, len(bundles)-1).Draw(t, "of")]
				for i, w := range b.work {
					if w.hold != nil {
						l.Return(w.hold)
						b.work = append(b.work[:i], b.work[i+1:]...)
						break
					}
				}
			}
			for _, b := range bundles {
				var held Need
				for _, w := range b.work {
					if w.hold != nil {
						n := w.hold.Need()
						held.CPU, held.GPU = held.CPU+n.CPU, held.GPU+n.GPU
					}
				}
				if held.CPU > b.has.CPU || held.GPU > b.has.GPU {
					t.Fatalf("a bundle of %v grants %v", b.has, held)
				}
			}
		}
		for _, b := range bundles {
			b.Close(errors.New("end"), func() { told++ })
			closed++
			for _, w := range b.work {
				if w.hold != nil {
					left = append(left, w)
				}
			}
		}
		for _, w := range left {
			l.Return(w.hold)
		}
		if diff := cmp.Diff(fresh, l.Free()); diff != "" || told != closed {
			t.Fatalf("%d of %d closed bundles are over, and something leaked:\n%s", told, closed, diff)
		}
	})
}
