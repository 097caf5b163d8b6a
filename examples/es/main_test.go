package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl/es"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestFinds: evolution reaches the goals, in one process and on three, and the two find the same. The long form has Pendulum too.
func TestFinds(t *testing.T) {
	p := testkit.Processes(t, 3, testkit.Loose())
	p.Ready()
	var reports []report
	for _, ctx := range []context.Context{testkit.New(t, testkit.Loose()).Context(), p.Context()} {
		f := flags{env: long.Form("CartPole", "all"), form: "json", plan: es.Plan{Workers: 16, Seed: 1}}
		var out bytes.Buffer
		if err := f.run(ctx, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		t.Log(out.String())
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Found) != long.Form(1, 2) {
			t.Fatal(err, out.String())
		}
		reports = append(reports, r)
	}
	for i, one := range reports[0].Found {
		if three := reports[1].Found[i]; !one.Evolution.Solved || one.Evolution.Steps != three.Evolution.Steps {
			t.Errorf("%+v %+v", one, three)
		}
	}
}

// TestReport: the text, the drawing, and what is missed.
func TestReport(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "es.svg")
	f := flags{env: "Pendulum", form: "text", svg: svg, plan: es.Plan{Workers: 2, Steps: 1, Seed: 1}}
	var out bytes.Buffer
	err := f.run(testkit.New(t).Context(), &out, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "not learned: the mean return on Pendulum is -") {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "Pendulum  -250") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	if drawn, err := os.ReadFile(svg); err != nil || !bytes.Contains(drawn, []byte("at random")) {
		t.Errorf("the drawing is %.200q, %v", drawn, err)
	}
}

func TestUsage(t *testing.T) {
	good := flags{env: "all", form: "text", plan: es.Plan{Workers: 1}}
	if s := good.check(); s != "" {
		t.Error(s)
	}
	for want, spoil := range map[string]func(f *flags){
		"-env is":     func(f *flags) { f.env = "Chess" },
		"-o is":       func(f *flags) { f.form = "xml" },
		"-workers is": func(f *flags) { f.plan.Workers = 0 },
	} {
		f := good
		spoil(&f)
		if s := f.check(); !strings.Contains(s, want) {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
