package member_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/member"
)

func TestLeavers(t *testing.T) {
	type pairs = [][2]uint64
	for _, c := range []struct {
		name    string
		members int
		broken  pairs
		want    []uint64
	}{
		{"none", 5, nil, nil},
		{"one pair: the later one", 3, pairs{{4, 9}}, []uint64{9}},
		{"one pair, said by both", 3, pairs{{4, 9}, {9, 4}}, []uint64{9}},
		{"fewer links", 5, pairs{{1, 2}, {1, 3}}, []uint64{1}},
		{"two pairs apart", 5, pairs{{1, 2}, {3, 4}}, []uint64{4, 2}},
		{"a minority", 5, pairs{{1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}, []uint64{2, 1}},
		{"two halves: one side goes, whole", 4, pairs{{1, 2}, {1, 4}, {3, 2}, {3, 4}}, []uint64{4, 2}},
		{"never more than half", 4, pairs{{1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}}, []uint64{4, 3}},
		{"two", 2, pairs{{1, 2}}, []uint64{2}},
	} {
		if diff := cmp.Diff(c.want, member.Leavers(c.members, c.broken)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestLeaversLaws: at most half go, each once, only such as have a broken pair, and the order of the pairs does not count.
func TestLeaversLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "members")
		var broken [][2]uint64
		for a := 1; a <= n; a++ {
			for b := a + 1; b <= n; b++ {
				if rapid.Bool().Draw(t, "broken") {
					broken = append(broken, [2]uint64{uint64(a), uint64(b)})
				}
			}
		}
		got := member.Leavers(n, broken)
		if len(got) > n/2 {
			t.Fatalf("%d of %d leave", len(got), n)
		}
		for i, id := range got {
			if slices.Contains(got[:i], id) || !slices.ContainsFunc(broken, func(p [2]uint64) bool { return p[0] == id || p[1] == id }) {
				t.Fatalf("%d leaves without need: %v", id, got)
			}
		}
		slices.Reverse(broken)
		if diff := cmp.Diff(got, member.Leavers(n, broken)); diff != "" {
			t.Fatal(diff)
		}
	})
}
