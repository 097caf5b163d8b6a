package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestUnwell: of the node, and of the bundles that work may be in, it is said which devices are sick where all would do, and those that are
// well do not; and not where a need is beyond all of them.
func TestUnwell(t *testing.T) {
	devices := eight("H100")
	l := newLine(Need{CPU: 8000}, devices)
	for i := range 3 {
		carved(t, l, i, Need{CPU: 1000, GPU: 2000})
	}
	sick := func(n ...int) {
		for i, d := range devices {
			is := false
			for _, k := range n {
				is = is || k == i
			}
			l.SetSick(d.UUID, is)
		}
		if l.Ill() != (len(n) > 0) {
			t.Errorf("%d devices are sick, and of the node it is said: %v", len(n), l.Ill())
		}
	}
	says := func(what string, n Need, want ...int) {
		t.Helper()
		err := l.Unwell(n)
		if len(want) == 0 {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		for _, k := range want {
			if !errors.Is(err, core.ErrDeviceSick) || !strings.Contains(err.Error(), devices[k].UUID) {
				t.Errorf("%s: %v, want that %s is sick", what, err, devices[k].UUID)
			}
		}
	}
	says("all are well", Need{GPU: 8000})
	sick(0, 3)
	says("all eight, of which two are sick", Need{GPU: 8000}, 0, 3)
	says("six", Need{GPU: 6000})
	says("nine", Need{GPU: 9000})
	says("another model", Need{GPU: 8000, GPUModel: "A100"})
	says("no device", Need{CPU: 1000})
	says("both devices of bundle 0", in(0, Need{GPU: 2000}), 0)
	says("one of bundle 0", in(0, Need{GPU: 1000}))
	says("more than bundle 0 has", in(0, Need{GPU: 3000}))
	says("both of bundle 2", in(2, Need{GPU: 2000}))
	says("both of a bundle that is not here", in(7, Need{GPU: 2000}))
	says("both of any bundle", in(core.AnyBundle, Need{GPU: 2000}))
	sick(0, 3, 4)
	says("both of any bundle, all of which have a sick one", in(core.AnyBundle, Need{GPU: 2000}), 4)
	sick()
	says("all are well again", Need{GPU: 8000})
}

// leaver is work that may leave, and stays where it is asked.
type leaver struct {
	inside
	asked, left int
}

func (w *leaver) Leaves() bool { w.asked++; return false }

func (w *leaver) Alike() any { return w }

func (w *leaver) Evict(cause error, begun bool) {
	if cause == nil && !begun {
		w.left++
	}
}

// TestSickBundle: what waits in a bundle leaves it unasked where too few of its devices are well for it, and nothing else does. What may be in any
// bundle comes to one whose devices are well, also where more waits there.
func TestSickBundle(t *testing.T) {
	devices := eight("H100")
	l := newLine(Need{CPU: 8000}, devices)
	for i := range 2 {
		carved(t, l, i, Need{CPU: 2000, GPU: 2000})
	}
	push := func(n Need) *leaver {
		t.Helper()
		w := &leaver{}
		if ok, short := l.PushIn(n, w); !ok {
			t.Fatal(short.Err())
		}
		return w
	}
	for i := range 2 {
		push(in(i, Need{GPU: 2000})) // which runs
	}
	two, one, elsewhere := push(in(0, Need{GPU: 2000})), push(in(0, Need{GPU: 1000})), push(in(1, Need{GPU: 2000}))
	if !l.Still() {
		t.Error("all are well, and there is something to move")
	}
	l.SetSick(devices[0].UUID, true)
	if l.Still() {
		t.Error("a device is sick that work waits for, and there is nothing to move")
	}
	l.Move()
	if two.left != 1 || two.asked != 0 || one.left+one.asked != 0 || elsewhere.left+elsewhere.asked != 0 {
		t.Errorf("of what waits there left, and was asked: %v of two devices, of which one is sick, %v of one, %v in another bundle",
			[]int{two.left, two.asked}, []int{one.left, one.asked}, []int{elsewhere.left, elsewhere.asked})
	}
	push(in(1, Need{GPU: 2000}))
	roams := push(in(core.AnyBundle, Need{GPU: 2000}))
	if l.Move(); roams.left != 0 || roams.asked != 1 {
		t.Errorf("work for two devices came to the bundle of which one is sick: it has left %d times, and was asked %d times", roams.left, roams.asked)
	}
}
