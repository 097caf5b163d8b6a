package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	// docLink is a link of a comment to an exported name of its package, or of another: [Name], [Name.Member], [pkg.Name].
	docLink = regexp.MustCompile(`(?:^|[\s(,])\[\*?((?:[a-z]\w*\.)?[A-Z]\w*)(\.[A-Z]\w*)?\]`)

	// qualified is a name of another package, as text and examples have it: pkg.Name, pkg.Name.Member.
	qualified = regexp.MustCompile(`(?:^|[^\w./\[*])\*?([a-z]\w*\.[A-Z]\w*)(\.[A-Z]\w*)?`)
)

// unresolved returns a line for each name in the comments of fsys's files, tests apart, that nothing has. A package is known
// by its name, so that of two packages of one name either may have it; names of packages outside the module are not looked
// for, nor those of a package that the file imports from there: in a file that imports the standard net, net.Conn is no name
// of rl/net.
func unresolved(fsys fs.FS) (bad []string, checked int, err error) {
	has := map[string]map[string]bool{} // folder, or "pkg " and a package's name -> what it declares: "X", "X.Y"
	open := map[string]bool{}           // "pkg.X" of types whose members may be others': those that embed, and aliases
	type comment struct {
		file, pkg, dir, text string
		outside              map[string]bool // packages that the file imports from outside the module
	}
	var comments []comment
	err = goFiles(fsys, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, pkg := path.Dir(name), f.Name.Name
		for _, key := range []string{dir, "pkg " + pkg} {
			if has[key] == nil {
				has[key] = map[string]bool{}
			}
			for _, d := range f.Decls {
				declared(d, func(id string) { has[key][id] = true }, func(id string) { open[pkg+"."+id] = true })
			}
		}
		outside := map[string]bool{}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if _, own := relative(imported); !own {
				outside[path.Base(imported)] = true
			}
		}
		for _, g := range f.Comments {
			comments = append(comments, comment{name, pkg, dir, g.Text(), outside})
		}
		return nil
	})
	for _, c := range comments {
		look := func(match []string, shown string) {
			key, id, pkg := c.dir, match[1], c.pkg
			if p, x, ok := strings.Cut(id, "."); ok {
				if key, id, pkg = "pkg "+p, x, p; has[key] == nil || c.outside[p] {
					return
				}
			}
			checked++
			member := id + match[2]
			if !has[key][id] || match[2] != "" && !open[pkg+"."+id] && !has[key][member] {
				bad = append(bad, c.file+": a comment names "+shown+", which does not exist")
			}
		}
		for line := range strings.Lines(c.text) {
			if !strings.HasPrefix(line, "\t") {
				for _, m := range docLink.FindAllStringSubmatch(line, -1) {
					look(m, "["+m[1]+m[2]+"]")
				}
			}
			for _, m := range qualified.FindAllStringSubmatch(line, -1) {
				look(m, m[1]+m[2])
			}
		}
	}
	return bad, checked, err
}

// declared calls name with what d declares, "X" and "X.Y", and open with each type that may have more members than those.
func declared(d ast.Decl, name, open func(id string)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			name(d.Name.Name)
			return
		}
		of := d.Recv.List[0].Type
		for {
			switch t := of.(type) {
			case *ast.StarExpr:
				of = t.X
				continue
			case *ast.IndexExpr:
				of = t.X
				continue
			case *ast.IndexListExpr:
				of = t.X
				continue
			case *ast.Ident:
				name(t.Name + "." + d.Name.Name)
			}
			return
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					name(n.Name)
				}
			case *ast.TypeSpec:
				name(s.Name.Name)
				var members *ast.FieldList
				switch t := s.Type.(type) {
				case *ast.StructType:
					members = t.Fields
				case *ast.InterfaceType:
					members = t.Methods
				default:
					open(s.Name.Name)
					continue
				}
				for _, m := range members.List {
					if len(m.Names) == 0 {
						open(s.Name.Name)
					}
					for _, n := range m.Names {
						name(s.Name.Name + "." + n.Name)
					}
				}
			}
		}
	}
}

// TestCommentsNameWhatExists: a reader who follows a name in a comment finds it.
func TestCommentsNameWhatExists(t *testing.T) {
	bad, checked, err := unresolved(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
	if checked < 300 {
		t.Errorf("only %d names were looked for: the patterns find them no more", checked)
	}
}

// TestUnresolved: names are looked for in links, in text and in examples.
func TestUnresolved(t *testing.T) {
	bad, checked, err := unresolved(fstest.MapFS{
		"a/a.go": {Data: []byte("// Package a has [Gone], [T], [T.M], [T.Gone], [b.U], [b.Gone] and b.U.Any, not b.Lost nor other.Thing.\n//\n//\tvar x b.Wrong = m[Key]\npackage a\n\ntype T struct{}\n\nfunc (*T) M() {}\n")},
		"b/b.go": {Data: []byte("package b\n\nimport \"io\"\n\ntype U struct{ io.Reader }\n")},
		"c/c.go": {Data: []byte("package c\n\nimport \"x.org/b\"\n\n// V has b.Other, of x.org.\ntype V struct{ b.Other }\n")},
	})
	want := []string{"[Gone]", "[T.Gone]", "[b.Gone]", "b.Lost", "b.Wrong"}
	if err != nil || checked != 9 || len(bad) != len(want) {
		t.Fatalf("want %q of 9 names, got %q of %d, %v", want, bad, checked, err)
	}
	for i, w := range want {
		if !strings.Contains(strings.Join(bad, "\n"), "names "+w+",") {
			t.Errorf("%s (%d) is not found in %q", w, i, bad)
		}
	}
}
