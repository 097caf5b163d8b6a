package ordered_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/ordered"
)

// The set is a sorted slice without doubles, whatever the order of insertions and deletions.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s ordered.Set
		model := map[string]bool{}
		// Runs of keys in and out of order make blocks split at their end and in their middle, and run empty.
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			from := rapid.IntRange(0, 3000).Draw(t, "from")
			step := rapid.SampledFrom([]int{1, 7, -1, -3}).Draw(t, "step")
			insert := rapid.IntRange(0, 2).Draw(t, "insert") > 0
			for i := range rapid.IntRange(1, 1500).Draw(t, "n") {
				key := name(from + i*step)
				if insert {
					if s.Insert(key) == model[key] {
						t.Fatalf("Insert(%q) disagrees with the model", key)
					}
					model[key] = true
				} else {
					if s.Delete(key) != model[key] {
						t.Fatalf("Delete(%q) disagrees with the model", key)
					}
					delete(model, key)
				}
			}
		}
		all := make([]string, 0, len(model))
		for k := range model {
			all = append(all, k)
		}
		slices.Sort(all)
		if s.Len() != len(all) {
			t.Fatalf("Len = %d, want %d", s.Len(), len(all))
		}
		prefix := rapid.SampledFrom([]string{"", "a", "ab", "b/", "zz"}).Draw(t, "prefix")
		start := name(rapid.IntRange(-100, 4000).Draw(t, "start"))
		var want []string
		for _, k := range all {
			if strings.HasPrefix(k, prefix) && k >= start {
				want = append(want, k)
			}
		}
		if d := cmp.Diff(want, slices.Collect(s.From(prefix, start))); d != "" {
			t.Fatalf("From(%q, %q) (-want +got):\n%s", prefix, start, d)
		}
	})
}

// name spreads numbers over a few prefixes.
func name(i int) string {
	u := uint(i + 10000)
	digits := string([]byte{'0' + byte(u/10000%10), '0' + byte(u/1000%10), '0' + byte(u/100%10), '0' + byte(u/10%10), '0' + byte(u%10)})
	return []string{"a/", "ab/", "b/"}[u%3] + digits
}
