package arch_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var movesKind = regexp.MustCompile(`grains\.(Movable|Durable)\(\)`)

// TestOwnGrainsStay: of the grains that packages of raysys define for themselves only those that deliver streams move: programs rely on the
// others to stay where they are, with what is in no State.
func TestOwnGrainsStay(t *testing.T) {
	var found []string
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		own := !strings.HasSuffix(p, "_test.go") && !matchAny([]string{"cmd/...", "examples/...", "tools/...", "docs/..."}, p)
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || !own {
			return err
		}
		text, err := fs.ReadFile(tree, p)
		for line := range strings.Lines(string(text)) {
			if code, _, _ := strings.Cut(line, "//"); movesKind.MatchString(code) {
				found = append(found, p)
			}
		}
		return err
	})
	if want := []string{"stream/agent.go"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("kinds that move are defined in %v, want %v: %v", found, want, err)
	}
}
