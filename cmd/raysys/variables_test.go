package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/raysys/raysys/cmd/internal/cli"
)

// ofTests are the folders whose variables are for tests and experiments, not for operators.
var ofTests = []string{"internal/consultest", "testkit", "cmd/internal/clitest", "cmd/raysys-lab"}

// unlisted are flags that are not of clusters: their commands' help is enough.
var unlisted = map[string]bool{"demo": true, "version": true}

// TestVariablesAreDocumented: docs/operating/variables.md has every variable that the code reads and every flag of the commands for
// clusters, and none that is not there.
func TestVariablesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating", "variables.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // variable -> flag
	for _, row := range regexp.MustCompile("(?m)^\\| `(RAYSYS_[A-Z_]+)` \\| (?:`--([a-z-]+)`)? *\\|").FindAllStringSubmatch(string(doc), -1) {
		if _, twice := documented[row[1]]; twice {
			t.Errorf("%s has two rows", row[1])
		}
		documented[row[1]] = row[2]
	}
	known := flagVariables(root(onConsul()))
	for name, flag := range known {
		if got, ok := documented[name]; !ok || got != flag {
			t.Errorf("--%s has the variable %s, the docs have it with %q", flag, name, got)
		}
	}
	for name, where := range variablesOf(t, os.DirFS(filepath.Join("..", ".."))) {
		if _, ok := documented[name]; !ok {
			t.Errorf("%s reads %s, which is not in the docs", where, name)
		}
		if _, ok := known[name]; !ok {
			known[name] = ""
		}
	}
	for name, flag := range documented {
		if got, ok := known[name]; !ok || got != flag {
			t.Errorf("the docs have %s with flag %q, the code with %q", name, flag, got)
		}
	}
	if len(known) < 30 {
		t.Errorf("only %d variables were found: the walk misses the module", len(known))
	}
}

// flagVariables returns the variables of all flags.
func flagVariables(top *cobra.Command) map[string]string {
	found := map[string]string{}
	for _, c := range top.Commands() {
		if unlisted[c.Name()] {
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if cli.Setting(f.Name) {
				found[cli.Variable(f.Name)] = f.Name
			}
		})
		maps.Copy(found, flagVariables(c))
	}
	return found
}

// variablesOf returns the variables that occur as strings of their own in the code, with one place each.
func variablesOf(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	whole := regexp.MustCompile("^RAYSYS_[A-Z_]*[A-Z]$")
	found := map[string]string{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			for _, skip := range append([]string{"bin", ".git", ".cache", "tools"}, ofTests...) {
				if path == skip {
					return fs.SkipDir
				}
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && whole.MatchString(s) {
					found[s] = path
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
