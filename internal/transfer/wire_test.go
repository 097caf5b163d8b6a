package transfer_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// TestFormatStays: what is in testdata reads, and is what this version writes (rule C4); what a later one
// appends is not in the way.
func TestFormatStays(t *testing.T) {
	for name, now := range transfer.Frames() {
		then := golden.Bytes(t, "v1/"+name, now)
		if !bytes.Equal(then, now) {
			t.Errorf("%s is written differently now:\n%q\n%q", name, then, now)
		}
		for _, b := range [][]byte{then, append(bytes.Clone(then), "of a later version"...)} {
			if again, err := transfer.Again(name, b); err != nil || !bytes.Equal(again, then) {
				t.Errorf("%s reads as %q: %v", name, again, err)
			}
		}
		for n := range then {
			if _, err := transfer.Again(name, then[:n]); !errors.Is(err, wire.ErrCorrupt) {
				t.Errorf("%d bytes of %s: %v", n, name, err)
			}
		}
	}
}

// FuzzFrames: whatever comes reads as something that reads the same again, or is corrupt.
func FuzzFrames(f *testing.F) {
	for name, b := range transfer.Frames() {
		f.Add(name, b)
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		again, err := transfer.Again(name, b)
		if err != nil {
			if !errors.Is(err, wire.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if third, err := transfer.Again(name, again); err != nil || !bytes.Equal(third, again) {
			t.Errorf("%q reads as %q and then as %q: %v", b, again, third, err)
		}
	})
}
