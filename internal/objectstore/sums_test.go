package objectstore_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/objectstore"
)

// TestSumsAsTheyCome: the sums of bytes are the same however the bytes are cut into pieces.
func TestSumsAsTheyCome(t *testing.T) {
	bytes := content(1, 5*mib)
	sizes := rapid.OneOf(rapid.IntRange(0, 5*mib), rapid.SampledFrom([]int{0, 1, mib - 1, mib, mib + 1, 4*mib + 7}))
	rapid.Check(t, func(t *rapid.T) {
		all := bytes[:sizes.Draw(t, "size")]
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(all)), 0, 20).Draw(t, "cuts")
		slices.Sort(cuts)
		var pieces [][]byte
		at := 0
		for _, c := range append(cuts, len(all)) {
			pieces = append(pieces, all[at:c])
			at = c
		}
		if got := objectstore.SumsAsTheyCome(pieces); !slices.Equal(got, objectstore.SumsOf(all)) {
			t.Errorf("%d bytes in %d pieces have the sums %x", len(all), len(pieces), got)
		}
	})
}
