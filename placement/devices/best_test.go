package devices_test

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/placement/devices"
)

// among counts the links among the devices of a set, a bit for each.
func among(links [][]int, set uint) (n int) {
	for i := range links {
		for j := range i {
			if set>>i&1 == 1 && set>>j&1 == 1 {
				n += links[i][j]
			}
		}
	}
	return n
}

// worth is what Best promises of a choice: most links within, then most links left.
func worth(links [][]int, free, set uint) [2]int {
	return [2]int{among(links, set), among(links, free&^set)}
}

// bruteForce is the worth of the best set of n free devices, over all sets there are.
func bruteForce(links [][]int, free uint, n int) (best [2]int) {
	best[0] = -1
	for set := range uint(1) << len(links) {
		if set&^free == 0 && bits.OnesCount(set) == n {
			if w := worth(links, free, set); slices.Compare(w[:], best[:]) > 0 {
				best = w
			}
		}
	}
	return best
}

func checkBest(t interface {
	Helper()
	Fatalf(string, ...any)
}, links [][]int, free uint, n int,
) {
	t.Helper()
	var list []int
	for i := range links {
		if free>>i&1 == 1 {
			list = append(list, i)
		}
	}
	got := devices.Best(links, list, n)
	if n < 1 || n > len(list) {
		if got != nil {
			t.Fatalf("%d of the free devices %v: got %v, want none", n, list, got)
		}
		return
	}
	var set uint
	for _, i := range got {
		set |= 1 << i
	}
	if bits.OnesCount(set) != n || set&^free != 0 || !slices.IsSorted(got) {
		t.Fatalf("%d of the free devices %v: got %v", n, list, got)
	}
	if w, best := worth(links, free, set), bruteForce(links, free, n); w != best {
		t.Fatalf("%d of the free devices %v: %v has %d links and leaves %d; the best has %d and leaves %d", n, list, got, w[0], w[1], best[0], best[1])
	}
}

func inventory(t *testing.T, name string) devices.Inventory {
	t.Helper()
	w, err := devices.Open("fake:"+name, devices.Config{Host: "h", LookupEnv: noVariable})
	if err != nil {
		t.Fatal(err)
	}
	return w.Inventory()
}

func noVariable(string) (string, bool) { return "", false }

// TestBestOnUnevenLinks: on a DGX-1, whose links are uneven, no set of the free devices is linked better than the one chosen,
// whichever are free.
func TestBestOnUnevenLinks(t *testing.T) {
	links := inventory(t, "dgx1").Links
	for free := range uint(1) << len(links) {
		for n := 0; n <= len(links)+1; n++ {
			checkBest(t, links, free, n)
		}
	}
	for n, want := range map[int][]int{2: {0, 3}, 4: {0, 1, 2, 3}, 8: {0, 1, 2, 3, 4, 5, 6, 7}} {
		if got := devices.Best(links, []int{7, 6, 5, 4, 3, 2, 1, 0}, n); !slices.Equal(got, want) {
			t.Errorf("the best %d of a DGX-1 are %v, want %v", n, got, want)
		}
	}
}

// TestBestOnAnyLinks: the same with links drawn at random.
func TestBestOnAnyLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "devices")
		links := make([][]int, n)
		for i := range links {
			links[i] = make([]int, n)
			for j := range i {
				links[i][j] = rapid.IntRange(0, 4).Draw(t, "links")
				links[j][i] = links[i][j]
			}
		}
		checkBest(t, links, uint(rapid.IntRange(0, 1<<n-1).Draw(t, "free")), rapid.IntRange(0, n).Draw(t, "n"))
	})
}

// TestBestOfMany: among more devices than are compared in full, a choice is still one group, where the links make groups.
func TestBestOfMany(t *testing.T) {
	const groups, size = 6, 8
	links := make([][]int, groups*size)
	var free []int
	for i := range links {
		links[i] = make([]int, len(links))
		for j := range links {
			if i != j && i%groups == j%groups {
				links[i][j] = 2
			}
		}
		free = append(free, i)
	}
	got := devices.Best(links, free, size)
	if diff := cmp.Diff([]int{0, 6, 12, 18, 24, 30, 36, 42}, got); diff != "" {
		t.Errorf("eight of six groups of eight (-want +got):\n%s", diff)
	}
	if got := devices.Best(make([][]int, 56), nil, 1); got != nil {
		t.Errorf("one of no free device: got %v", got)
	}
}

// TestBestWithoutLinks: of a source that does not say how all of its devices are linked, those it says nothing of have no links.
func TestBestWithoutLinks(t *testing.T) {
	for _, c := range []struct {
		name  string
		links [][]int
		want  []int
	}{
		{"none", nil, []int{0, 1}},
		{"empty rows", make([][]int, 4), []int{0, 1}},
		{"fewer rows than devices", [][]int{{0, 0}, {0, 0}}, []int{0, 1}},
		{"short rows", [][]int{{0}, {0, 0, 4}, {0, 4, 0}}, []int{1, 2}},
	} {
		if got := devices.Best(c.links, []int{0, 1, 2, 3}, 2); !slices.Equal(got, c.want) {
			t.Errorf("%s: two of four devices: %v, want %v", c.name, got, c.want)
		}
	}
	many := make([]int, 48) // more than are compared set by set
	for i := range many {
		many[i] = i
	}
	if got := devices.Best(nil, many, 8); !slices.Equal(got, many[:8]) {
		t.Errorf("eight of 48: %v, want the first", got)
	}
}

// TestMatrix: direct links count by themselves, links through a switch between all at it, and a link to a GPU that is not
// there, as in a container, counts for nothing.
func TestMatrix(t *testing.T) {
	list := []devices.Device{{UUID: "a", PCI: "1"}, {UUID: "b", PCI: "2"}, {UUID: "c", PCI: "3"}, {UUID: "m", GPU: "d", PCI: "4"}}
	sw := func(name string) devices.Link { return devices.Link{Remote: name, Switch: true} }
	gpu := func(pci string) devices.Link { return devices.Link{Remote: pci} }
	got := devices.Matrix(list, [][]devices.Link{
		{gpu("2"), gpu("2"), sw("s"), sw("s"), sw("t"), gpu("9")},
		{gpu("1"), gpu("1"), sw("s"), sw("t")},
		{sw("s"), sw("s"), sw("s"), gpu("9")},
		{sw("s"), sw("t")},
	})
	want := [][]int{{0, 4, 2, 0}, {4, 0, 1, 0}, {2, 1, 0, 0}, {0, 0, 0, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// BenchmarkBest is the dearest choice among all sets: half of 16 devices at one switch, where every set is as good.
func BenchmarkBest(b *testing.B) {
	links, free := make([][]int, 16), []int{}
	for i := range links {
		links[i] = slices.Repeat([]int{18}, len(links))
		links[i][i] = 0
		free = append(free, i)
	}
	for b.Loop() {
		devices.Best(links, free, 8)
	}
}
