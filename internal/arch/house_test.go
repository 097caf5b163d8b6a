package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	maxLines = 500
	maxHome  = 1000 // of a file that is the home of one type: half of its functions, or more, are that type's methods

	// overLimit begins the line in a file's header that says why the file is longer than maxLines.
	overLimit = "// Over 500 lines: "
)

// sleepers are the files that may call time.Sleep. There is none: a test waits for an event or runs in a synctest
// bubble (where receiving from time.After passes the time), and the runtime polls nothing.
var sleepers = []string{}

// undocumented returns a line for every library package without a doc.go that holds its package comment.
func undocumented(fsys fs.FS) (bad []string, packages int, err error) {
	docs := map[string]string{} // folder -> what is wrong with it
	err = goFiles(fsys, false, func(name string, src []byte) error {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if f.Name.Name == "main" { // a command says what it does where its main is
			return nil
		}
		if _, seen := docs[dir]; !seen {
			docs[dir] = "has no doc.go"
		}
		if path.Base(name) == "doc.go" {
			docs[dir] = ""
			if want := "Package " + f.Name.Name + " "; !strings.HasPrefix(f.Doc.Text(), want) {
				docs[dir] = fmt.Sprintf("has a doc.go whose package comment does not begin with %q", want)
			}
		}
		return nil
	})
	for dir, wrong := range docs {
		if wrong != "" {
			bad = append(bad, "package in "+dir+" "+wrong)
		}
	}
	slices.Sort(bad)
	return bad, len(docs), err
}

func TestEveryPackageHasADoc(t *testing.T) {
	bad, packages, err := undocumented(tree)
	check(t, bad, packages, err)
}

// homeOf returns the type of which a file has most methods, where those are half of its functions or more, and "" where there is none.
func homeOf(src []byte) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return ""
	}
	methods, all := map[string]int{}, 0
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			all++
			methods[receiver(fn)]++
		}
	}
	delete(methods, "")
	for t, n := range methods {
		if 2*n >= all {
			return t
		}
	}
	return ""
}

// tooLong returns a line for every non-test file over maxLines, or maxHome where it is a home, whose header does not say why.
func tooLong(fsys fs.FS) (bad []string, files int, err error) {
	err = goFiles(fsys, false, func(name string, src []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		text := string(src)
		n := strings.Count(text, "\n")
		header, _, _ := strings.Cut("\n"+text, "\npackage ")
		reasoned := slices.ContainsFunc(strings.Split(header, "\n"), func(line string) bool {
			reason, ok := strings.CutPrefix(line, overLimit)
			return ok && strings.TrimSpace(reason) != ""
		})
		if n > maxLines && !reasoned && (n > maxHome || homeOf(src) == "") {
			bad = append(bad, fmt.Sprintf("%s has %d lines, and may have %d, or %d as the home of one type: split it by concept, or say why in a line before 'package' that begins with %q",
				name, n, maxLines, maxHome, overLimit))
		}
		return nil
	})
	return bad, files, err
}

func TestNoFileIsTooLong(t *testing.T) {
	bad, files, err := tooLong(tree)
	check(t, bad, files, err)
}

// sleeps returns a line for every use of time.Sleep: in tests, testdata and foreign modules too, and however the
// time package is named there.
func sleeps(fsys fs.FS) (bad []string, files int, err error) {
	err = goFiles(fsys, true, func(name string, src []byte) error {
		if slices.Contains(sleepers, name) {
			return nil
		}
		files++
		set := token.NewFileSet()
		// What does not parse is the compiler's business; the tree comes as far as it could be read.
		f, _ := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if f == nil {
			return nil
		}
		names, dot := []string{}, false // what this file calls the time package
		for _, spec := range f.Imports {
			switch {
			case spec.Path.Value != `"time"` && spec.Path.Value != "`time`":
			case spec.Name == nil:
				names = append(names, "time")
			case spec.Name.Name == ".":
				dot = true
			default:
				names = append(names, spec.Name.Name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			found := false
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				found = ok && n.Sel.Name == "Sleep" && slices.Contains(names, x.Name)
			case *ast.Ident:
				found = dot && n.Name == "Sleep"
			}
			if found {
				bad = append(bad, fmt.Sprintf("%s sleeps: wait for the event, or use testing/synctest", set.Position(n.Pos())))
			}
			return true
		})
		return nil
	})
	return bad, files, err
}

func TestNobodySleeps(t *testing.T) {
	bad, files, err := sleeps(tree)
	check(t, bad, files, err)
}

func check(t *testing.T, bad []string, seen int, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if seen < 3 {
		t.Fatalf("found %d files or packages: the walk misses the module", seen)
	}
	for _, line := range bad {
		t.Error(line)
	}
}

func TestHouseRulesFindOffences(t *testing.T) {
	long := strings.Repeat("\n", maxLines)
	fsys := fstest.MapFS{}
	for name, src := range map[string]string{
		"doc.go":              "// Package raysys is documented.\npackage raysys\n",
		"long.go":             "package raysys\n" + long,
		"just.go":             "package raysys" + long,
		"reasoned.go":         overLimit + "one table.\n\npackage raysys\n" + long,
		"unreasoned.go":       overLimit + "\n\npackage raysys\n" + long,
		"home.go":             "package raysys\n\nfunc (T) a() {}\n\nfunc b() {}\n" + long,
		"mixed.go":            "package raysys\n\nfunc (T) a() {}\n\nfunc b() {}\n\nfunc c() {}\n" + long,
		"mansion.go":          "package raysys\n\nfunc (T) a() {}\n" + long + long,
		"late.go":             "package raysys\n\n" + overLimit + "said too late\n" + long,
		"long_test.go":        "package raysys\n" + long,
		"bare/bare.go":        "// Package bare has its comment elsewhere.\npackage bare\n",
		"silent/doc.go":       "// Copyright\n\npackage silent\n",
		"tested/doc.go":       "// Package tested is fine.\npackage tested\n",
		"tested/x_test.go":    "package tested_test\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n",
		"cmd/raysys/main.go":  "package main\n\nimport clock \"time\"\n\nvar nap = clock.Sleep\n",
		"cmd/raysys/other.go": "package main\n\nimport . \"time\"\n\nfunc f() { Sleep(1) }\n",
		"cmd/raysys/half.go":  "package main\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n\nfunc {",
		"cmd/raysys/fine.go":  "package main\n\n// not time.Sleep(1)\nvar s = time.Sleep\n",
		"tools/x/go.mod":      "module x\n",
		"tools/x/x.go":        "package x\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n" + long,
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	undoc, _, err1 := undocumented(fsys)
	over, _, err2 := tooLong(fsys)
	slept, _, err3 := sleeps(fsys)
	if err1 == nil { // the half file has no such fault: its package clause is whole
		err1 = err2
	}
	if err1 != nil || err3 != nil {
		t.Fatal(err1, err3)
	}
	for _, c := range []struct {
		what string
		got  []string
		want []string
	}{
		{"undocumented", undoc, []string{"package in bare has no doc.go", "package in silent has a doc.go whose"}},
		{"too long", over, []string{"late.go has 503", "long.go has 501", "mansion.go has 1003", "mixed.go has 507", "unreasoned.go has 503"}},
		{"sleeps", slept, []string{"cmd/raysys/half.go:5:12 ", "cmd/raysys/main.go:5:11 ", "cmd/raysys/other.go:5:12 ", "tested/x_test.go:5:12 ", "tools/x/x.go:5:12 "}},
	} {
		if len(c.got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
			continue
		}
		for i := range c.got {
			if !strings.HasPrefix(c.got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", c.what, c.got[i], c.want[i])
			}
		}
	}
}
