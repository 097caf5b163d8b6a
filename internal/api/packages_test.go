package api_test

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/raysys/raysys"
	root   = "../.." // the module's folder, seen from this one, where go test runs
)

// library is one public package as its users see it.
type library struct {
	path    string // inside the module; "." is its root
	set     *token.FileSet
	doc     *doc.Package
	imports map[string]map[string]string // file -> name in that file -> import path inside the module
}

// libraries parses the public packages of the module, in the order of their paths.
func libraries(t *testing.T) []library {
	t.Helper()
	var found []library
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if dir != root {
			if strings.HasPrefix(name, ".") || name == "internal" || name == "testdata" || name == "bin" || name == "examples" {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				return fs.SkipDir
			}
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		l, err := load(dir, filepath.ToSlash(rel))
		if err == nil && l.doc != nil {
			found = append(found, l)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 5 {
		t.Fatalf("found %d public packages: the walk misses the module", len(found))
	}
	slices.SortFunc(found, func(a, b library) int { return strings.Compare(a.path, b.path) })
	return found
}

// load parses the package in dir, which has that path in the module. Its doc is nil when there is none, or a command.
func load(dir, inside string) (library, error) {
	l := library{path: inside, set: token.NewFileSet(), imports: map[string]map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	system := build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", ReleaseTags: build.Default.ReleaseTags}
	var files []*ast.File
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if ok, err := system.MatchFile(dir, e.Name()); err != nil {
			return l, err
		} else if !ok {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := parser.ParseFile(l.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return l, err
		}
		if f.Name.Name == "main" {
			return l, nil
		}
		files = append(files, f)
		l.imports[name] = own(f)
	}
	if len(files) == 0 {
		return l, nil
	}
	l.doc, err = doc.NewFromFiles(l.set, files, path.Join(module, l.path))
	return l, err
}

// own returns what a file calls the packages of this module that it imports.
func own(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		inside, ok := strings.CutPrefix(imported, module+"/")
		if err != nil || !ok {
			continue
		}
		name := path.Base(inside)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = inside
	}
	return names
}
