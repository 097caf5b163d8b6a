package long

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var form = flag.Bool("long", false, "run the long forms of the tests")

// Form is the size of a test: the short one, or the full one with -long.
func Form[T any](short, full T) T {
	if *form {
		return full
	}
	return short
}

// Only skips a test that has no short form.
func Only(t testing.TB) {
	t.Helper()
	if !*form {
		t.Skipf("only in the long form: make test-long, or go test -long -run '^%s$'", t.Name())
	}
}

// Seed is for draws that are made once in a run: 1 in the short form, another one at each run with -long.
func Seed() uint64 { return Form(1, rand.Uint64()) }

// Seeds are for a test that repeats with each: 1 in the short form, 1 to 100 with -long. Those that the test once failed
// with are in both.
func Seeds(failed ...uint64) []uint64 {
	list := failed
	for seed := range Form[uint64](1, 100) {
		list = append(list, seed+1)
	}
	return list
}
