package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/internal/clitest"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/bench"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
)

func TestBenchJSON(t *testing.T) {
	stdout, stderr, code := clitest.InProcess(t, run, []string{"bench", "-o", "json", "--rounds", "1", "--row", "tasks_sync,get_small"}, nil)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows: %s", len(rows), stdout)
	}
	for i, want := range []struct{ name, unit string }{{"tasks_sync", "us"}, {"get_small", "gets/s"}} {
		r := rows[i]
		if r["row"] != want.name || r["tier"] != "in-process" || r["unit"] != want.unit {
			t.Errorf("row %d is %v %v in %v, want %s in %s", i, r["row"], r["tier"], r["unit"], want.name, want.unit)
		}
		for _, field := range []string{"value", "p50_us", "p99_us", "max_us", "limit_value", "ratio"} {
			if v, ok := r[field].(float64); !ok || v <= 0 {
				t.Errorf("%s: %s is %v", want.name, field, r[field])
			}
		}
		if limit, _ := r["limit"].(string); limit == "" {
			t.Errorf("%s: the limit has no name", want.name)
		}
		if detail, _ := r["detail"].(map[string]any); detail["operation"] == nil {
			t.Errorf("%s: detail is %v", want.name, r["detail"])
		}
		if len(r) != 11 {
			t.Errorf("%s has %d fields, and the form has 11: %v", want.name, len(r), r)
		}
	}
	if !strings.Contains(stderr, "measured tasks_sync") {
		t.Errorf("no talk meanwhile: %q", stderr)
	}
}

// The rows of large objects move as much as --size says, and refuse what is no object.
func TestBenchSize(t *testing.T) {
	stdout, stderr, code := clitest.InProcess(t, run, []string{"bench", "-o", "json", "--rounds", "1", "--row", "put_gigabytes", "--size", "2MiB"}, nil)
	if code != 0 || !strings.Contains(stdout, `"bytes": 2097152,`) || !strings.Contains(stdout, `"ratio": 1,`) || !strings.Contains(stdout, "no copy: ") {
		t.Errorf("exit %d: %s\n%s", code, stdout, stderr)
	}
	for _, size := range []string{"64KiB", "much", "-1"} {
		if _, stderr, code := clitest.InProcess(t, run, []string{"bench", "--row", "put_gigabytes", "--size", size}, nil); code != cli.ExitUsage || !strings.Contains(stderr, "--size") {
			t.Errorf("--size %s: exit %d, %s", size, code, stderr)
		}
	}
}

// The variables stand in for flags; a row that starts processes finds its own binary; the in-process tier joins no
// cluster, wherever a Consul is said to be.
func TestBenchTable(t *testing.T) {
	stdout, stderr, code := clitest.Command(t, []string{"bench", "-o", "table"}, []string{"RAYSYS_OUTPUT=json", "RAYSYS_ROW=node_start", "RAYSYS_ROUNDS=1", "RAYSYS_CONSUL=127.0.0.1:1"})
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "row ") || !strings.HasPrefix(lines[1], "node_start ") {
		t.Errorf("table:\n%s", stdout)
	}
	if !strings.Contains(stderr, " 1 rounds") {
		t.Errorf("talk: %q", stderr)
	}
}

// The tier has a server of its own, which is found in PATH and gone afterwards, and its nodes join a cluster of theirs,
// whatever the variables of system.Main say.
func TestBenchAcrossProcesses(t *testing.T) {
	consultest.Needed(t)
	path, err := consulserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	stdout, stderr, code := clitest.Command(t, []string{"bench", "--tier", "cross-process", "--row", "tasks_async", "-o", "json", "--rounds", "1"},
		[]string{"PATH=" + filepath.Dir(path), "TMPDIR=" + temp, "RAYSYS_NAME=mine", "RAYSYS_ROLE=both", "RAYSYS_CLUSTER=mine"})
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v in %s", err, stdout)
	}
	if r := rows[0]; r["row"] != "tasks_async" || r["tier"] != "cross-process" || r["unit"] != "tasks/s" || len(r) != 11 {
		t.Errorf("row %v", r)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if !strings.Contains(stderr, "Consul: "+path) {
		t.Errorf("the talk does not say which server it is: %q", stderr)
	}
}

func TestBenchHelpListsEveryRow(t *testing.T) {
	stdout, _, _ := clitest.InProcess(t, run, []string{"bench", "--help"}, nil)
	for _, tier := range bench.Tiers() {
		_, list, ok := strings.Cut(stdout, "\nRows of --tier "+string(tier)+":\n")
		list, _, _ = strings.Cut(list, "\n\n")
		if !ok {
			t.Errorf("the help has no list of tier %s", tier)
		}
		for _, name := range bench.Names(bench.Rows(tier)) {
			if !strings.Contains(list, "  "+name+" ") {
				t.Errorf("the help does not list %s in tier %s", name, tier)
			}
		}
		for _, l := range bench.Later(tier) {
			if !strings.Contains(stdout, "  "+l.Name+" ") {
				t.Errorf("the help does not list %s", l.Name)
			}
		}
	}
	if !strings.Contains(stdout, "(only when named with --row)") {
		t.Error("the help does not say which rows are measured only when they are named")
	}
}
