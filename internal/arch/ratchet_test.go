package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// What a stranger can hold in mind: files of a package, tests apart, and methods of a type.
const (
	maxFiles   = 25
	maxMethods = 30
)

// grown are the packages and the types that are above the limits, with what they have. The numbers fall, and none is added: a package that
// grows gives a part to a new one, which knows nothing of it (as internal/graindir and internal/runqueue did), and a type a part of its
// fields with their methods to a type of its own.
var grown = map[string]int{
	"cmd/raysys-lab/internal/bench":         56,
	"cmd/raysys-lab/internal/bench.cluster": 31,
	"cmd/raysys-lab/internal/simulate.sim":  45,
	"grains/collective.participant":         32,
	"internal/core":                         51,
	"internal/core.Future":                  101,
	"internal/core.Turn":                    73,
	"internal/grainengine":                  53,
	"internal/grainengine.Engine":           36,
	"internal/grainengine.activation":       110,
	"internal/grainengine.call":             43,
	"internal/grainengine.peer":             31,
	"internal/grainengine.route":            40,
	"internal/ledger.Line":                  76,
	"internal/lineage.Lineage":              73,
	"internal/link":                         43,
	"internal/link.Link":                    53,
	"internal/link.Peer":                    50,
	"internal/member.Member":                52,
	"internal/mesh.Mesh":                    44,
	"internal/objects":                      31,
	"internal/objects.Objects":              116,
	"internal/objectstore":                  37,
	"internal/objectstore.Object":           52,
	"internal/objectstore.Store":            53,
	"internal/refs.References":              32,
	"internal/registry":                     33,
	"internal/registry.leader":              33,
	"internal/shardlog.Shard":               37,
	"internal/taskengine":                   49,
	"internal/taskengine.Engine":            81,
	"internal/taskengine.exchange":          76,
	"internal/taskengine.record":            75,
	"placement.View":                        45,
	"rl":                                    29,
	"store/storetest.suite":                 34,
	"system.Node":                           40,
	"testkit":                               30,
	"testkit.Cluster":                       48,
}

// onlyCalls reports whether a method does nothing but call a function of another package: it is the name of that, not one thing more.
func onlyCalls(fn *ast.FuncDecl, imported map[string]bool) bool {
	if fn.Body == nil || len(fn.Body.List) != 1 {
		return false
	}
	var e ast.Expr
	switch s := fn.Body.List[0].(type) {
	case *ast.ExprStmt:
		e = s.X
	case *ast.ReturnStmt:
		if len(s.Results) == 1 {
			e = s.Results[0]
		}
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := generic(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && imported[pkg.Name]
}

// generic returns the type or function that an expression gives type parameters to; any other as it is.
func generic(e ast.Expr) ast.Expr {
	switch i := e.(type) {
	case *ast.IndexExpr:
		return i.X
	case *ast.IndexListExpr:
		return i.X
	}
	return e
}

// sizes returns how many files each package has, and how many methods each type: "folder" and "folder.Type".
func sizes(fsys fs.FS) (map[string]int, error) {
	n := map[string]int{}
	err := goFiles(fsys, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := path.Dir(name)
		n[dir]++
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		imported := map[string]bool{}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			as := path.Base(p)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			imported[as] = true
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || onlyCalls(fn, imported) {
				continue
			}
			t := fn.Recv.List[0].Type
			if p, ok := t.(*ast.StarExpr); ok {
				t = p.X
			}
			if id, ok := generic(t).(*ast.Ident); ok {
				n[dir+"."+id.Name]++
			}
		}
		return nil
	})
	return n, err
}

// overgrown returns a line for each package and type that is above its number in the table, or above the limit and not there.
func overgrown(fsys fs.FS, table map[string]int) (bad []string, seen int, err error) {
	n, err := sizes(fsys)
	for what, has := range n {
		limit, unit, cure := maxFiles, "files", "give a part of it to a package of its own, which knows nothing of it"
		if _, isType := strings.CutPrefix(path.Ext(what), "."); isType && what != "." {
			limit, unit, cure = maxMethods, "methods", "give some of its fields, with their methods, to a type of its own, or make functions of them"
		}
		if may := max(limit, table[what]); has > may {
			bad = append(bad, fmt.Sprintf("%s has %d %s, and may have %d: %s (ratchet_test.go)", what, has, unit, may, cure))
		}
	}
	for what := range table {
		if n[what] == 0 {
			bad = append(bad, what+" does not exist: take it out of the table in ratchet_test.go")
		}
	}
	slices.Sort(bad)
	return bad, len(n), err
}

// TestNothingGrows: packages and types that are large get no larger, and no other gets large.
func TestNothingGrows(t *testing.T) {
	bad, seen, err := overgrown(tree, grown)
	check(t, bad, seen, err)
}

// TestOvergrown: files are counted without tests, methods without those that only call a function of another package.
func TestOvergrown(t *testing.T) {
	src := "package a\n\nimport \"b\"\n\nfunc (T[X]) one() { b.F[int]() }\n\nfunc (*T[X]) two() int { return b.G(1) }\n\nfunc F() {}\n\nfunc (t T[X]) three() { t.one() }\n"
	fsys := fstest.MapFS{"in/a/a_test.go": {Data: []byte(src)}, "in/a/a.go": {Data: []byte(src)}}
	for i := range maxFiles {
		fsys[fmt.Sprintf("in/a/a%d.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package a\n\nfunc (*T[X]) m%d() {}\n\nfunc (*U) m%d() {}\n", i, i)}
	}
	for i := range maxMethods - maxFiles {
		fsys[fmt.Sprintf("in/b/b%d.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package b\n\nfunc (*T) m%d() {}\n", i)}
	}
	for _, c := range []struct {
		table map[string]int
		want  string
	}{
		{nil, "[in/a has 26 files, and may have 25"},
		{map[string]int{"in/a": 26, "in/a.T": 26}, "[]"},
		{map[string]int{"in/a": 26, "in/a.Gone": 40}, "[in/a.Gone does not exist"},
	} {
		if bad, seen, err := overgrown(fsys, c.table); err != nil || seen != 5 || len(bad) > 1 || !strings.HasPrefix(fmt.Sprint(bad), c.want) {
			t.Errorf("%v: got %q of %d, %v; want %s", c.table, bad, seen, err, c.want)
		}
	}
	more := fsys["in/a/a1.go"]
	more.Data = append(more.Data, strings.Repeat("\nfunc (*T[X]) m() {}\n", maxMethods-maxFiles)...)
	if bad, _, err := overgrown(fsys, map[string]int{"in/a": 26}); err != nil || len(bad) != 1 || !strings.HasPrefix(bad[0], "in/a.T has 31 methods, and may have 30") {
		t.Errorf("got %q, %v", bad, err)
	}
}
