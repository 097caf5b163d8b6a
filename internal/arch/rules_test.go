package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	ruleCited = regexp.MustCompile(`\bC[1-9][0-9]?\b`)
	ruleBegin = regexp.MustCompile(`(?m)^### (C[0-9]+) .*$`)
	testNamed = regexp.MustCompile("`(Test[A-Z]\\w*)`")
)

// badRules returns a line for each rule that a comment or a page cites and docs/internals/rules.md does not have, for each rule there
// without a test, and for each test that a page names and no package has.
func badRules(fsys fs.FS) (bad []string, rules int, err error) {
	tests, cited := map[string]bool{}, map[string]string{}
	err = goFiles(fsys, false, func(name string, src []byte) error {
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, c := range f.Comments {
			for _, id := range ruleCited.FindAllString(c.Text(), -1) {
				cited[id] = name
			}
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") {
				tests[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	docs, err := pages(fsys)
	if err != nil {
		return nil, 0, err
	}
	for name, text := range docs {
		for _, id := range ruleCited.FindAllString(text, -1) {
			cited[id] = name
		}
		for _, m := range testNamed.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				bad = append(bad, name+" names "+m[1]+", which is no test of this module")
			}
		}
	}
	text := docs["docs/internals/rules.md"]
	begins := ruleBegin.FindAllStringSubmatchIndex(text, -1)
	for i, m := range begins {
		end := len(text)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		id, planned := text[m[2]:m[3]], strings.Contains(text[m[0]:m[1]], "(planned)")
		if !planned && !testNamed.MatchString(text[m[1]:end]) {
			bad = append(bad, "docs/internals/rules.md names no test for rule "+id)
		}
		delete(cited, id)
	}
	for id, where := range cited {
		bad = append(bad, where+" cites rule "+id+", which is not in docs/internals/rules.md")
	}
	slices.Sort(bad)
	return bad, len(begins), nil
}

// pages returns README.md and the pages of docs, decisions included, by their paths.
func pages(fsys fs.FS) (map[string]string, error) {
	out := map[string]string{}
	for _, pattern := range words("README.md docs/*.md docs/guide/*.md docs/operating/*.md docs/internals/*.md docs/internals/adr/*.md") {
		names, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			b, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, err
			}
			out[name] = string(b)
		}
	}
	return out, nil
}

var pathNamed = regexp.MustCompile("`([\\w.-]+\\.go|(?:cmd|docs|examples|grains|internal|placement|store|system|tasks|testkit|tools)/[\\w./-]+)`")

// badPaths returns a line for each file or package that a page of docs or README.md names and the module does not have. A
// file is named by its path in the repository. Decisions (docs/internals/adr) name those of their day.
func badPaths(fsys fs.FS) (bad []string, named int, err error) {
	docs, err := pages(fsys)
	if err != nil {
		return nil, 0, err
	}
	for name, text := range docs {
		if strings.HasPrefix(name, "docs/internals/adr/") {
			continue
		}
		for _, m := range pathNamed.FindAllStringSubmatch(text, -1) {
			named++
			if _, err := fs.Stat(fsys, strings.TrimSuffix(m[1], "/")); err != nil {
				bad = append(bad, name+" names "+m[1]+", which is no path in the repository: write it from the root")
			}
		}
	}
	slices.Sort(bad)
	return bad, named, nil
}

// TestPathsInDocs: a reader finds the files that the pages name.
func TestPathsInDocs(t *testing.T) {
	bad, named, err := badPaths(tree)
	check(t, bad, named, err)
}

func TestBadPathsAreFound(t *testing.T) {
	bad, named, err := badPaths(fstest.MapFS{
		"README.md":               {Data: []byte("`internal/a` and `internal/a/a.go`, `internal/b`, `core.Future`, `a.go`, `store/x/`")},
		"docs/internals/adr/1.md": {Data: []byte("`internal/gone`")},
		"internal/a/a.go":         {Data: []byte("package a\n")},
		"store/x/x.go":            {Data: []byte("package x\n")},
	})
	if err != nil || named != 5 || len(bad) != 2 || !strings.HasPrefix(bad[0], "README.md names a.go,") || !strings.HasPrefix(bad[1], "README.md names internal/b,") {
		t.Fatalf("named %d, got %q, %v", named, bad, err)
	}
}

// TestRulesAreWritten: who reads "rule C19" finds it, and the tests that hold it.
func TestRulesAreWritten(t *testing.T) {
	bad, rules, err := badRules(tree)
	check(t, bad, rules, err)
}

func TestBadRulesAreFound(t *testing.T) {
	bad, _, err := badRules(fstest.MapFS{
		"a/a.go":                  {Data: []byte("package a\n\n// A holds rule C1, C2 and C7.\nfunc A() {}\n")},
		"a/a_test.go":             {Data: []byte("package a\n\nfunc TestA() {}\n")},
		"docs/internals/rules.md": {Data: []byte("### C1 One\nTests: `TestA`, `TestGone`.\n### C2 Two\n`TestB(`\n### C3 Three (planned)\n")},
	})
	want := []string{
		"a/a.go cites rule C7, which is not in docs/internals/rules.md",
		"docs/internals/rules.md names TestGone, which is no test of this module",
		"docs/internals/rules.md names no test for rule C2",
	}
	if err != nil || !slices.Equal(bad, want) {
		t.Fatalf("got %q, %v\nwant %q", bad, err, want)
	}
}
