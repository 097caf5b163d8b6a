package main

import (
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestGymnasium tries the rows that need nothing but gymnasium and numpy, in the Python of the tests.
func TestGymnasium(t *testing.T) {
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.Command(python, "-c", "import gymnasium, numpy").CombinedOutput(); err != nil {
		t.Skipf("%s has no gymnasium and numpy: RAYSYS_PYTHON names a Python that has them (%v %.200s)", python, err, b)
	}
	k := testkit.New(t, testkit.Nodes(1))
	for i, r := range rows {
		for _, name := range r.names {
			if r.venv == "gymnasium" {
				t.Run(name, func(t *testing.T) {
					said, err := try(k.Context(), job{Row: i, Name: name, Python: python})
					if err != nil {
						t.Error(err)
					}
					t.Log(said)
				})
			}
		}
	}
}

// TestTable: the page has the table of the rows.
func TestTable(t *testing.T) {
	const page = "../../docs/guide/rl/environments.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "<!-- begin test-envs -->\n"+table()+"<!-- end test-envs -->") {
		t.Errorf("%s has another table than rows.go: make test-envs tries the rows, and writes it", page)
	}
}

// TestRows: each row has the files that it names, and requirements pin its package.
func TestRows(t *testing.T) {
	for _, r := range rows {
		if r.venv == "" && r.refused == "" || r.venv != "" && r.version() == "" {
			t.Errorf("%s: the requirements %q have no version of it, and the row does not say why", r.pkg, r.venv)
		}
		if r.script != "" {
			r.config(r.names[0], "")
		}
	}
}
