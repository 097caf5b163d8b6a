package api_test

import (
	"go/ast"
	"go/doc"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exception allows declarations of a public package to name types of internal packages. The pattern is matched by
// path.Match with a package's path, a space, and the declaration: Func, Type, Type.Method or Type.Field.
type exception struct{ pattern, why string }

// naming is one place of the public API that names an internal type.
type naming struct{ where, what string }

// namings returns where a package's exported signatures, fields, aliases and variables name a type of an internal
// package. `type Ref[T any] core.Ref[T]` is none of these: it is a type of its own, whose methods the package declares.
func namings(l library) []naming {
	var found []naming
	look := func(name string, node ast.Node) {
		imports := l.imports[l.set.Position(node.Pos()).Filename]
		ast.Inspect(node, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && hidden(imports[x.Name]) {
					found = append(found, naming{l.path + " " + name, imports[x.Name] + "." + s.Sel.Name})
				}
			}
			return true
		})
	}
	functions := func(prefix string, list []*doc.Func) {
		for _, f := range list {
			look(prefix+f.Name, f.Decl.Type)
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			for _, spec := range v.Decl.Specs {
				valueTypes(spec.(*ast.ValueSpec), look)
			}
		}
	}
	values(l.doc.Consts)
	values(l.doc.Vars)
	functions("", l.doc.Funcs)
	for _, typ := range l.doc.Types {
		values(typ.Consts)
		values(typ.Vars)
		functions("", typ.Funcs)
		functions(typ.Name+".", typ.Methods)
		for _, spec := range typ.Decl.Specs {
			typeParts(spec.(*ast.TypeSpec), look)
		}
	}
	return found
}

func hidden(imported string) bool { return slices.Contains(strings.Split(imported, "/"), "internal") }

// valueTypes looks at what gives constants and variables their type. A sentinel that an internal package made is an
// error, whatever it is called there.
func valueTypes(v *ast.ValueSpec, look func(string, ast.Node)) {
	for i, name := range v.Names {
		switch {
		case v.Type != nil:
			look(name.Name, v.Type)
		case i < len(v.Values) && !strings.HasPrefix(name.Name, "Err"):
			look(name.Name, v.Values[i])
		}
	}
}

func typeParts(t *ast.TypeSpec, look func(string, ast.Node)) {
	if t.TypeParams != nil {
		look(t.Name.Name, t.TypeParams)
	}
	switch typ := t.Type.(type) {
	case *ast.StructType:
		members(t.Name.Name, typ.Fields, look)
	case *ast.InterfaceType:
		members(t.Name.Name, typ.Methods, look)
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.IndexListExpr:
		if t.Assign.IsValid() {
			look(t.Name.Name, typ)
		}
	default:
		look(t.Name.Name, typ)
	}
}

func members(prefix string, list *ast.FieldList, look func(string, ast.Node)) {
	for _, f := range list.List {
		if len(f.Names) == 0 {
			look(prefix, f.Type) // embedded
		}
		for _, name := range f.Names {
			if name.IsExported() {
				look(prefix+"."+name.Name, f.Type)
			}
		}
	}
}

func TestNoInternalTypesInTheAPI(t *testing.T) {
	used := make([]bool, len(exceptions))
	for _, l := range libraries(t) {
		for _, n := range namings(l) {
			i := slices.IndexFunc(exceptions, func(e exception) bool {
				ok, err := path.Match(strings.ReplaceAll(e.pattern, "/", "|"), strings.ReplaceAll(n.where, "/", "|"))
				return err == nil && ok
			})
			if i < 0 {
				t.Errorf("%s names %s, which its users cannot import: declare a type in the public package, or add an exception with its reason to exceptions_test.go", n.where, n.what)
				continue
			}
			used[i] = true
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			t.Errorf("nothing needs the exception for %q any more: remove it from exceptions_test.go", e.pattern)
		}
	}
}

// TestNamings proves that the check finds an internal type wherever the API can name one, and nowhere else.
func TestNamings(t *testing.T) {
	const head = "package p\n\nimport \"" + module + "/internal/core\"\n\n"
	for _, c := range []struct{ source, where string }{
		{"func F(core.Job) {}", "p F"},
		{"func F() (r []*core.Job) { return nil }", "p F"},
		{"func F[T core.Job](T) {}", "p F"},
		{"type T struct{}\n\nfunc (T) M(func(core.Job)) {}", "p T.M"},
		{"type T struct{ F map[int]core.Job }", "p T.F"},
		{"type T struct{ core.Job }", "p T"},
		{"type T interface{ M(core.Job) }", "p T.M"},
		{"type T = core.Job", "p T"},
		{"type T func(core.Job)", "p T"},
		{"var V core.Job", "p V"},
		{"var V = core.New()", "p V"},
		{"var ErrV = core.ErrV", ""},
		{"type T core.Job", ""},
		{"type T[A any] core.Job[A]", ""},
		{"type T struct{ f core.Job }", ""},
		{"func f(core.Job) {}", ""},
		{"func F() { core.New() }", ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(head+c.source), 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := load(dir, "p")
		if err != nil {
			t.Fatal(c.source, err)
		}
		got := ""
		for _, n := range namings(l) {
			got = n.where
		}
		if got != c.where {
			t.Errorf("%s: an internal type is named at %q, want %q", c.source, got, c.where)
		}
	}
}
