package objectstore_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/objectstore"
)

// TestSumsAside: several goroutines compute what one does, however the bytes are cut into pieces.
func TestSumsAside(t *testing.T) {
	bytes := content(1, 40*mib)
	sizes := rapid.OneOf(rapid.IntRange(0, 40*mib), rapid.SampledFrom([]int{0, 1, 16*mib - 1, 16 * mib, 16*mib + 1, 17 * mib, 39*mib + 7}))
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
		workers := rapid.IntRange(2, 9).Draw(t, "workers")
		got := objectstore.NewManifest(id(1), 1, pieces...)
		aside, serial := objectstore.SumsAside(workers, pieces), objectstore.SumsSerial(all)
		if err := got.Check(); err != nil || got.Size != int64(len(all)) || !slices.Equal(got.Chunks, serial) || !slices.Equal(aside, serial) {
			t.Errorf("%d bytes in %d pieces by %d: %v", len(all), len(pieces), workers, err)
		}
	})
}
