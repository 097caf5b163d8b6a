// Package golden keeps what this version writes in files, so that tests hold every later version to it.
//
// A file is written once: by a test that runs with -update while there is none. What is there stays.
package golden

import (
	"encoding/hex"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files that are missing; those that are there stay")

// Bytes returns the golden file of that name below testdata. now is what this build writes; nil only reads.
func Bytes(t testing.TB, name string, now []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && *update && now != nil {
		if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
			kept, err = now, os.WriteFile(file, now, 0o644)
		}
	}
	if err != nil {
		t.Fatalf("%v: -update writes a golden file that is missing", err)
	}
	return kept
}

// Hex is Bytes for a file in base 16, on lines of 32 bytes.
func Hex(t testing.TB, name string, now []byte) []byte {
	t.Helper()
	var text []byte
	for line := range slices.Chunk(now, 32) {
		text = append(hex.AppendEncode(text, line), '\n')
	}
	kept, err := hex.DecodeString(strings.Join(strings.Fields(string(Bytes(t, name, text))), ""))
	if err != nil {
		t.Fatalf("golden file %s: %v", name, err)
	}
	return kept
}
