package guide_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSnippets: each piece of Go in a page stands in the tests beside it, in the file of the page's name, where it is compiled and
// run. Indentation does not count.
func TestSnippets(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "rl/*.md"} {
		some, err := filepath.Glob(pattern)
		if err != nil || len(some) == 0 {
			t.Fatal(pattern, some, err)
		}
		pages = append(pages, some...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 150 {
			t.Errorf("%s has %d lines, 150 are allowed", page, n)
		}
		var code string
		if b, err := os.ReadFile(strings.TrimSuffix(page, ".md") + "_test.go"); err == nil {
			code = flush(string(b))
		}
		for i, block := range strings.Split(string(text), "```go\n")[1:] {
			block, _, ok := strings.Cut(block, "```")
			if !ok || !strings.Contains(code, flush(block)) {
				t.Errorf("%s: its piece %d of Go is in no test of that name:\n%s", page, i+1, block)
			}
		}
	}
}

// flush is text without the indentation of its lines.
func flush(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}
