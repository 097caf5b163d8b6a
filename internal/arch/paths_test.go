package arch_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// fileName is a Go file as docs/architecture.md names it, with as much of its path as it takes.
var fileName = regexp.MustCompile("`([\\w/.]*\\.go)`")

// misnamed returns a line for each file that doc names and that is not exactly one of the module's.
func misnamed(fsys fs.FS, doc string) (bad []string, named int, err error) {
	text, err := fs.ReadFile(fsys, doc)
	if err != nil {
		return nil, 0, err
	}
	var files []string
	if err := goFiles(fsys, false, func(name string, _ []byte) error {
		files = append(files, name)
		return nil
	}); err != nil {
		return nil, 0, err
	}
	for _, m := range fileName.FindAllStringSubmatch(string(text), -1) {
		named++
		var found []string
		for _, f := range files {
			if strings.HasSuffix("/"+f, "/"+m[1]) {
				found = append(found, f)
			}
		}
		switch len(found) {
		case 0:
			bad = append(bad, doc+" names "+m[1]+", which does not exist")
		case 1:
		default:
			bad = append(bad, doc+" names "+m[1]+", which may be each of "+strings.Join(found, ", ")+": write its folder too")
		}
	}
	return bad, named, nil
}

// TestArchitectureNamesFiles: a reader who follows docs/architecture.md finds each file that it names, and no other.
func TestArchitectureNamesFiles(t *testing.T) {
	bad, named, err := misnamed(tree, "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
	if named < 50 {
		t.Errorf("only %d files are named: the pattern finds them no more", named)
	}
}

// TestMisnamed: a file is named rightly by the shortest path that no other has.
func TestMisnamed(t *testing.T) {
	bad, named, err := misnamed(fstest.MapFS{
		"a.md":     {Data: []byte("`x.go`, `b/y.go`, `y.go` and `z.go`, but not y.go or `y.md`")},
		"b/x.go":   {Data: []byte("package b")},
		"b/y.go":   {Data: []byte("package b")},
		"bb/y.go":  {Data: []byte("package bb")},
		"bb/yz.go": {Data: []byte("package bb")},
	}, "a.md")
	if err != nil || named != 4 || len(bad) != 2 || !strings.Contains(bad[0], "each of b/y.go, bb/y.go") || !strings.Contains(bad[1], "names z.go") {
		t.Errorf("want y.go and z.go of 4 named, got %q of %d, %v", bad, named, err)
	}
}
