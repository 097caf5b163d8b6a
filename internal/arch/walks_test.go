package arch_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	// walkAlias is how docs/architecture.md shortens a folder in its walks.
	walkAlias = regexp.MustCompile(`(\w+) = ([\w/]+)`)

	// walkStep is a file in a walk, with the functions to look for in it.
	walkStep = regexp.MustCompile(`([\w/]+\.go)((?: \w+,)* \w+)?`)
)

// misled returns a line for each step of the walks in doc that leads nowhere: a file that does not exist, or a function that
// it does not have. A file without a folder is in the folder of the one before.
func misled(fsys fs.FS, doc string) (bad []string, steps int, err error) {
	text, err := fs.ReadFile(fsys, doc)
	if err != nil {
		return nil, 0, err
	}
	_, walks, _ := strings.Cut(string(text), "## Five walks")
	_, walks, _ = strings.Cut(walks, "```\n")
	walks, _, _ = strings.Cut(walks, "```\n")
	alias := map[string]string{}
	for _, m := range walkAlias.FindAllStringSubmatch(walks, -1) {
		alias[m[1]] = m[2]
	}
	at := "."
	for _, m := range walkStep.FindAllStringSubmatch(walks, -1) {
		steps++
		dir, file := path.Split(m[1])
		first, rest, _ := strings.Cut(dir, "/")
		if whole := alias[first]; whole != "" {
			first = whole
		}
		switch name := path.Join(first, rest); {
		case dir != "":
			at = name
		case m[1] == "ref.go": // of the root
			at = "."
		}
		src, err := fs.ReadFile(fsys, path.Join(at, file))
		if err != nil {
			bad = append(bad, doc+": a walk leads to "+path.Join(at, file)+", which does not exist")
			continue
		}
		for _, f := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ' ' || r == ',' }) {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + f + `\b`).Match(src) {
				bad = append(bad, doc+": a walk looks for "+f+" in "+path.Join(at, file)+", which does not have it")
			}
		}
	}
	return bad, steps, nil
}

// TestWalksLeadSomewhere: a reader who follows a walk of docs/architecture.md finds each file and function in it.
func TestWalksLeadSomewhere(t *testing.T) {
	bad, steps, err := misled(tree, "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
	if steps < 90 {
		t.Errorf("only %d steps are found: the pattern finds them no more", steps)
	}
}

// TestMisled: a walk is followed through shortened folders, and from file to file in one.
func TestMisled(t *testing.T) {
	bad, steps, err := misled(fstest.MapFS{
		"a.md":      {Data: []byte("## Five walks\n```\nA call   b = in/b\n  b/x.go Go, Gone   y.go on (as above)\n  z.go   ref.go   b/sub/x.go Lost\n```\n`none.go`\n")},
		"in/b/x.go": {Data: []byte("package b\n\nfunc (t *T[A, R]) Go() {}\n\n// Gone\n")},
		"in/b/y.go": {Data: []byte("package b\n\nfunc on() {}\n")},
		"ref.go":    {Data: []byte("package a")},
	}, "a.md")
	if err != nil || steps != 5 || len(bad) != 3 || !strings.Contains(bad[0], "Gone in in/b/x.go") || !strings.Contains(bad[1], "in/b/z.go") || !strings.Contains(bad[2], "in/b/sub/x.go") {
		t.Errorf("want Gone, z.go and sub/x.go of 5 steps, got %q of %d, %v", bad, steps, err)
	}
}
