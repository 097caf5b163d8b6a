package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"testing"
	"testing/fstest"
)

// goFileName is a Go file that a comment names, with its folders or without.
var goFileName = regexp.MustCompile(`[\w./-]*\w\.go\b`)

// lostFiles returns a line for each Go file that a comment names and that is not there: one without a folder in the
// folder of the comment, one with folders from the module's root.
func lostFiles(fsys fs.FS) (bad []string, checked int, err error) {
	err = goFiles(fsys, false, func(name string, src []byte) error {
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, g := range f.Comments {
			for _, file := range goFileName.FindAllString(g.Text(), -1) {
				checked++
				where := file
				if path.Base(file) == file {
					where = path.Join(path.Dir(name), file)
				}
				if _, err := fs.Stat(fsys, where); err != nil {
					bad = append(bad, name+": a comment names "+file+", which does not exist")
				}
			}
		}
		return nil
	})
	return bad, checked, err
}

// TestCommentsNameFiles: a reader who follows the name of a file in a comment finds the file.
func TestCommentsNameFiles(t *testing.T) {
	bad, checked, err := lostFiles(tree)
	check(t, bad, checked, err)
}

// TestLostFiles: a file is looked for beside the comment, and one with a folder from the root.
func TestLostFiles(t *testing.T) {
	bad, checked, err := lostFiles(fstest.MapFS{
		"a/doc.go":  {Data: []byte("// Package a: b.go, gone.go, c/d.go, a/e.go.\npackage a\n")},
		"a/b.go":    {Data: []byte("package a\n")},
		"c/d.go":    {Data: []byte("package c\n\n// d.go\n\n/* a/b.go */\n")},
		"x_test.go": {Data: []byte("package x\n\nconst _ = \"none.go\"\n")},
	})
	if err != nil || checked != 6 || len(bad) != 2 {
		t.Errorf("want gone.go and a/e.go of 6 names, got %q of %d, %v", bad, checked, err)
	}
}
