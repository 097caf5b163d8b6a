package arch_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

var decisionNamed = regexp.MustCompile(`\[(\d{4})\]`)

// TestDecisionsAreIndexed: docs/internals/adr/README.md says of each decision what holds now. A behaviour names its decisions by
// number, and the end of the page gives each number its file.
func TestDecisionsAreIndexed(t *testing.T) {
	b, err := fs.ReadFile(tree, "docs/internals/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	for _, m := range decisionNamed.FindAllStringSubmatch(string(b), -1) {
		named[m[1]]++
	}
	files, err := fs.Glob(tree, "docs/internals/adr/[0-9]*.md")
	var bad []string
	for _, file := range files {
		name := strings.TrimPrefix(file, "docs/internals/adr/")
		number, _, _ := strings.Cut(name, "-")
		if named[number] < 2 || !strings.Contains(string(b), "\n["+number+"]: "+name+"\n") {
			bad = append(bad, "docs/internals/adr/README.md says nothing of "+name+", or has no line ["+number+"]: "+name)
		}
		delete(named, number)
	}
	for number := range named {
		bad = append(bad, "docs/internals/adr/README.md names decision "+number+", which has no file")
	}
	check(t, bad, len(files), err)
}
