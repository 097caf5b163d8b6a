package arch_test

import (
	"bufio"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestNoFailFiles: what rapid writes when a test fails stays on the machine where it failed. A rule with a slash inside is
// anchored to the root, so it needs the stars to hold for every package.
func TestNoFailFiles(t *testing.T) {
	b, err := fs.ReadFile(tree, ".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(b), "\n"), "**/testdata/rapid/") {
		t.Error(".gitignore lacks the line **/testdata/rapid/: a failed run's file would be committed")
	}
	cmd := exec.Command("git", "ls-files", "*.fail")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		return // a copy of the tree without its repository
	}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		t.Errorf("%s is committed: git rm it", s.Text())
	}
}
