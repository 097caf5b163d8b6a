package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	// walkAlias is how docs/internals/architecture.md shortens a folder in its walks.
	walkAlias = regexp.MustCompile(`(\w+) = ([\w/]+)`)

	// walkStep is a sign that nothing calls the next function by its name, or a file in a walk with the functions to look
	// for in it.
	walkStep = regexp.MustCompile(`[║┆]|([\w/]+\.go)((?: \w+,)* \w+)?`)
)

// functions returns the functions of a Go file: for the name of each, all identifiers in the bodies of those that have it.
func functions(src []byte) (map[string]map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]bool{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		named := all[fn.Name.Name]
		if named == nil {
			named = map[string]bool{}
			all[fn.Name.Name] = named
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				named[id.Name] = true
			}
			return true
		})
	}
	return all, nil
}

// misled returns a line for each step of the walks in doc that leads nowhere: a file that does not exist, a function that
// it does not have, or one that no function before it in the walk calls. A file without a folder is in the folder of the
// one before.
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
	for walk := range strings.SplitSeq(walks, "\n\n") {
		called := map[string]bool{} // names in the functions so far
		entered := true             // nothing need call the next function
		for _, m := range walkStep.FindAllStringSubmatch(walk, -1) {
			if m[1] == "" {
				entered = true
				continue
			}
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
			where := path.Join(at, file)
			src, err := fs.ReadFile(fsys, where)
			if err != nil {
				bad = append(bad, doc+": a walk leads to "+where+", which does not exist")
				continue
			}
			funcs, err := functions(src)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", where, err)
			}
			for _, f := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ' ' || r == ',' }) {
				switch {
				case funcs[f] == nil:
					bad = append(bad, doc+": a walk looks for "+f+" in "+where+", which does not have it")
				case !entered && !called[f]:
					bad = append(bad, doc+": a walk comes to "+f+" in "+where+", which no function before it names: put the one that does before it, or a sign (┆)")
				}
				entered = false
				maps.Copy(called, funcs[f])
			}
		}
	}
	return bad, steps, nil
}

// TestWalksLeadSomewhere: a reader who follows a walk of docs/internals/architecture.md finds each file and function in it, and in a
// function the name of the next.
func TestWalksLeadSomewhere(t *testing.T) {
	bad, steps, err := misled(tree, "docs/internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
	if steps < 150 {
		t.Errorf("only %d steps are found: the pattern finds them no more", steps)
	}
}

// TestMisled: a walk is followed through shortened folders, from file to file in one, and from a function to those that it
// names; a sign says that nothing names the next.
func TestMisled(t *testing.T) {
	bad, steps, err := misled(fstest.MapFS{
		"a.md": {Data: []byte("## Five walks\n```\nA call   b = in/b\n  b/x.go Go, Gone   y.go on (as above)   ┆ y.go off, on\n" +
			"║ y.go on, off\n  z.go   ref.go   b/sub/x.go Lost\n\nAnother\n  b/y.go on, Go\n```\n`none.go`\n")},
		"in/b/x.go": {Data: []byte("package b\n\nfunc (t *T[A, R]) Go() { on() }\n\n// Gone\n")},
		"in/b/y.go": {Data: []byte("package b\n\nfunc on() {}\n\nfunc off() {}\n\nfunc Go() {}\n")},
		"ref.go":    {Data: []byte("package a")},
	}, "a.md")
	want := []string{"Gone in in/b/x.go", "off in in/b/y.go", "in/b/z.go", "in/b/sub/x.go", "Go in in/b/y.go"}
	if err != nil || steps != 8 || len(bad) != len(want) {
		t.Fatalf("want %q of 8 steps, got %q of %d, %v", want, bad, steps, err)
	}
	for i, w := range want {
		if !strings.Contains(bad[i], w) {
			t.Errorf("want %q, got %q", w, bad[i])
		}
	}
}
