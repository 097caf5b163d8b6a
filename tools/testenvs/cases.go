package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/raysys/raysys/grains/process"
)

const (
	seed  = 7   // of the first environment, and of the actions
	steps = 300 // of each environment, where a case says nothing else
)

var (
	//go:embed alone.py
	alonePy string
	//go:embed wrappers/*.py
	wrappers embed.FS
	//go:embed requirements/*.txt
	requirements embed.FS
)

// row is a row of the table: environments of a package that do the same.
type row struct {
	pkg, venv string   // its name on PyPI; its file in requirements, none where it cannot be installed
	names     []string // of Config.Gym; with a script they are the argument of its function make
	script    string   // in wrappers
	cfg       process.Config
	steps     int    // fewer than 300 where an environment is slow, and its episodes are short
	refused   string // the sentence that refuses them, or why the package is not installed
	reset     bool   // Reset refuses them, and Begin does not
}

// config is what a user writes for an environment of the row.
func (r *row) config(name, python string) process.Config {
	cfg := r.cfg
	cfg.Envs, cfg.Python = cmp.Or(cfg.Envs, 2), python
	if r.script == "" {
		cfg.Gym = name
		return cfg
	}
	text, err := wrappers.ReadFile("wrappers/" + r.script)
	if err != nil {
		panic(err) // rows name files that are there: TestRows
	}
	cfg.Script, cfg.New, cfg.Args = string(text), cmp.Or(cfg.New, "make"), map[string]any{"name": name}
	return cfg
}

// spec is the argument of alone.py.
func (r *row) spec(name string) ([]byte, error) {
	return json.Marshal(struct {
		process.Config
		Steps, Seed int
	}{r.config(name, ""), cmp.Or(r.steps, steps), seed})
}

// version is what requirements pin of the package.
func (r *row) version() string {
	text, _ := requirements.ReadFile("requirements/" + r.venv + ".txt")
	for line := range strings.Lines(string(text)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "=="); ok && plain(name) == plain(r.pkg) {
			return version
		}
	}
	return ""
}

// plain is the name of a package as pip compares it.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// outcome is the last column of the table.
func (r *row) outcome() string {
	var set []string
	if r.cfg.Flatten {
		set = append(set, "`Flatten`")
	}
	if r.cfg.Own {
		set = append(set, "`Own`")
	}
	if r.cfg.Autoreset != "" {
		set = append(set, fmt.Sprintf("`Autoreset: %q`", r.cfg.Autoreset))
	}
	if mode := r.cfg.Args["vectorization_mode"]; mode != nil {
		set = append(set, fmt.Sprintf("`vectorization_mode: %q`", mode))
	}
	did := "works"
	switch {
	case r.venv == "":
		did = "not installed: " + r.refused
	case r.refused != "":
		did = "refused: \"" + r.refused + "\""
	case r.script != "":
		did = fmt.Sprintf("by a wrapper: `%s` of [%s](../../../tools/testenvs/wrappers/%s)", cmp.Or(r.cfg.New, "make"), r.script, r.script)
	}
	if len(set) > 0 {
		did += ", with " + strings.Join(set, ", ")
	}
	return did
}

// table is the table of all rows.
func table() string {
	var b strings.Builder
	equal, refused, packages := 0, 0, map[string]bool{}
	for _, r := range rows {
		switch {
		case r.venv == "":
			continue
		case r.refused == "":
			equal += len(r.names)
		default:
			refused += len(r.names)
		}
		packages[r.pkg] = true
	}
	fmt.Fprintf(&b, "%d packages: %d environments are equal bit for bit, and %d are refused.\n\n| package | version | environments | outcome |\n|---|---|---|---|\n",
		len(packages), equal, refused)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.pkg, r.version(), strings.Join(r.names, ", "), r.outcome())
	}
	return b.String()
}
