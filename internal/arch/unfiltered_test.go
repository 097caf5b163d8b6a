package arch_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	kindMade = regexp.MustCompile(`(?m)^[^/\n"]*grains\.Define(In)?\[`)
	kindRule = regexp.MustCompile(`grains\.Unfiltered\(\)`)
)

// filtered returns a line for each file of a package of raysys that defines more kinds than it makes Unfiltered: a filter of a program that asks for a
// tenant, say, would stop the mechanism. Examples, pages, commands and tools are programs themselves.
func filtered(fsys fs.FS) (bad []string, kinds int, err error) {
	err = goFiles(fsys, false, func(name string, src []byte) error {
		for _, program := range []string{"examples/", "docs/", "cmd/", "tools/"} {
			if strings.HasPrefix(name, program) {
				return nil
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		made := len(kindMade.FindAll(src, -1))
		kinds += made
		if unfiltered := len(kindRule.FindAll(src, -1)); made > 0 && unfiltered == 0 {
			bad = append(bad, fmt.Sprintf("%s defines %d kinds, and none is grains.Unfiltered", name, made))
		} else if made > unfiltered && !bytes.Contains(src, []byte("...)")) { // options in a list of its own are for several
			bad = append(bad, fmt.Sprintf("%s defines %d kinds, and %d are grains.Unfiltered", name, made, unfiltered))
		}
		return nil
	})
	return bad, kinds, err
}

// TestKindsAreUnfiltered: the kinds that packages of raysys define pass no filter of a program.
func TestKindsAreUnfiltered(t *testing.T) {
	bad, kinds, err := filtered(os.DirFS("../.."))
	if err != nil || kinds < 10 {
		t.Fatal(kinds, err)
	}
	for _, b := range bad {
		t.Error(b)
	}
	made := fstest.MapFS{"x/x.go": {Data: []byte("package x\n\nvar k = grains.Define[int](\"k\")\n")}}
	if bad, _, err := filtered(made); err != nil || len(bad) != 1 {
		t.Error(bad, err)
	}
}
