package testkit

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seedVariable repeats a run.
const seedVariable = "RAYSYS_TESTKIT_SEED"

// seedsVariable names the folder for seeds that tests failed with; nothing is written without it. A relative one is below
// the folder of the test's package, in which go test runs: testdata/seeds is where files belong that go into version control.
const seedsVariable = "RAYSYS_TESTKIT_SEEDS"

// maxSeeds bounds the seeds kept of one test; older ones go.
const maxSeeds = 10

// seedFile is "" where nothing is to be kept.
func seedFile(test string) string {
	folder := os.Getenv(seedsVariable)
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, fileName(test))
}

// savedSeeds are the seeds that test once failed with, the latest first. Lines that hold none are comments.
func savedSeeds(test string) []uint64 {
	path := seedFile(test)
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var seeds []uint64
	for line := range strings.Lines(string(b)) {
		if n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64); err == nil && n != 0 {
			seeds = append(seeds, n)
		}
	}
	return seeds
}

// saveSeed puts a seed before the others and returns the file.
func saveSeed(test string, seed uint64) (string, error) {
	seeds := slices.DeleteFunc(savedSeeds(test), func(n uint64) bool { return n == seed })
	seeds = append([]uint64{seed}, seeds...)
	seeds = seeds[:min(len(seeds), maxSeeds)]
	var b strings.Builder
	fmt.Fprintf(&b, "# %s failed with these seeds, the latest first. They are tried before a new one.\n", test)
	for _, n := range seeds {
		fmt.Fprintln(&b, n)
	}
	path := seedFile(test)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return path, err
	}
	return path, os.WriteFile(path, []byte(b.String()), 0o666)
}

// drawn is the seed of one run of a test.
type drawn struct {
	seed  uint64
	fixed bool // by the environment or by the Seed option, so that there is nothing to save
	saved bool // the draw is of a run that failed
}

// drawSeeds returns the seeds to run a test with, in order. The environment wins over the option fixed, and that over what
// was saved.
func drawSeeds(t testing.TB, fixed uint64) []drawn {
	t.Helper()
	if v := os.Getenv(seedVariable); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("testkit: %s=%q: give a whole number", seedVariable, v)
		}
		return []drawn{{seed: n, fixed: true}}
	}
	if fixed != 0 {
		return []drawn{{seed: fixed, fixed: true}}
	}
	var list []drawn
	for _, n := range savedSeeds(t.Name()) {
		list = append(list, drawn{seed: n, saved: true})
	}
	return append(list, drawn{seed: randomSeed()})
}

func randomSeed() uint64 {
	for {
		var b [8]byte
		crand.Read(b[:]) // never fails, says its package
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// announce logs the seed, and saves it when the test fails, where the user asked for that and the seed matters: a test that
// drew nothing from it fails with any other as well.
func (d drawn) announce(t testing.TB, test string, matters func() bool) {
	t.Helper()
	from := ""
	if d.saved {
		from = fmt.Sprintf(", which failed before: remove it from %s when it is mended", seedFile(test))
	}
	t.Logf("testkit: seed %d%s (%s=%d repeats it)", d.seed, from, seedVariable, d.seed)
	if d.fixed || seedFile(test) == "" {
		return
	}
	t.Cleanup(func() {
		if !t.Failed() || !matters() {
			return
		}
		if path, err := saveSeed(test, d.seed); err != nil {
			t.Logf("testkit: saving the seed %d: %v", d.seed, err)
		} else {
			t.Logf("testkit: the seed %d is in %s and will be tried first", d.seed, path)
		}
	})
}
