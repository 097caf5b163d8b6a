package api_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files of the public API anew")

// golden is the file that holds the API of a package.
func golden(pkg string) string {
	if pkg == "." {
		pkg = "raysys"
	}
	return filepath.Join("testdata", strings.ReplaceAll(pkg, "/", "_")+".txt")
}

func TestPublicAPI(t *testing.T) {
	const again = "go test ./internal/api -update"
	var files []string
	for _, l := range libraries(t) {
		file, got := golden(l.path), render(t, l)
		files = append(files, file)
		want, err := os.ReadFile(file)
		if *update {
			if !bytes.Equal(got, want) {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("package %s has no golden file of its API: run %s", l.path, again)
			continue
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("the public API of %s changed; where that is meant, run %s (-golden +now):\n%s", l.path, again, diff)
		}
	}
	kept, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range kept {
		switch {
		case slices.Contains(files, file):
		case !*update:
			t.Errorf("%s is of no public package: run %s", file, again)
		default:
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}
