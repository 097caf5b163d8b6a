package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/cmd/internal/clitest"
)

func TestMain(m *testing.M) {
	if clitest.Asked() {
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestExitCodes(t *testing.T) {
	clitest.ExitCodes(t, run, []clitest.Case{
		{Args: []string{}, Code: 0},
		{Args: []string{"bench", "--help"}, Code: 0},
		{Args: []string{"frobnicate"}, Code: 2, Talk: `command "frobnicate" does not exist: run raysys-lab --help`},
		{Args: []string{"bench", "--bogus"}, Code: 2, Talk: "unknown flag: --bogus: run raysys-lab bench --help"},
		{Args: []string{"bench", "tasks_sync"}, Code: 2, Talk: "run raysys-lab bench --help"},
		{Args: []string{"bench", "-o", "xml"}, Code: 2, Talk: "the forms are table and json"},
		{Args: []string{"bench", "--row", "tasks_sink"}, Code: 2, Talk: "use --row with tasks_async,"},
		{Args: []string{"bench", "--row", "failover"}, Code: 2, Talk: "use --tier cross-process"},
		{Args: []string{"bench", "--tier", "cross-process", "--consul", "here"}, Code: 2, Talk: "give HOST:PORT"},
		{Args: []string{"bench", "--tier", "cross-process"}, Variables: []string{"RAYSYS_CONSUL_PROGRAM=/nonexistent"}, Code: 2, Talk: "run make consul"},
		{Args: []string{"bench", "--tier", "cross-process"}, Variables: []string{"RAYSYS_CONSUL=127.0.0.1:1"}, Code: 1, Talk: "no Consul answers at 127.0.0.1:1"},
		{Args: []string{"bench", "--tier", "cross-process"}, Variables: []string{"RAYSYS_CONSUL_PREFIX=raysys/prod/"}, Code: 2, Talk: "would put the nodes of the benchmark into the cluster"},
		{Args: []string{"bench", "--tier", "space"}, Code: 2, Talk: `tier "space" does not exist`},
		{Args: []string{"bench", "--rounds", "0"}, Code: 2, Talk: "--rounds is 0: give 1 or more"},
		{Args: []string{"bench"}, Variables: []string{"RAYSYS_ROUNDS=many"}, Code: 2, Talk: `RAYSYS_ROUNDS="many" cannot be meant for --rounds`},
		{Args: []string{"bench"}, Variables: []string{"RAYSYS_ROW=nothing"}, Code: 2, Talk: `row "nothing" does not exist`},
		{Args: []string{"chaos", "--faults", "kill,flood"}, Code: 2, Talk: `such rounds have no fault "flood": run raysys-lab chaos --help`},
		{Args: []string{"chaos", "--nodes", "1"}, Code: 2, Talk: "--nodes 1: give 2 to 9"},
		{Args: []string{"chaos", "--rounds", "-1"}, Code: 2, Talk: "--rounds -1: give 1 or more"},
		{Args: []string{"chaos", "--for", "-1s"}, Code: 2, Talk: "--for -1s: give a positive duration"},
		{Args: []string{"chaos", "--length", "1s"}, Code: 2, Talk: "--length 1s: give 10s or more"},
		{Args: []string{"chaos", "--only", "3"}, Code: 2, Talk: "--only without --seed"},
		{Args: []string{"chaos", "now"}, Code: 2, Talk: "run raysys-lab chaos --help"},
		{Args: []string{"chaos-round"}, Code: 2, Talk: "use raysys-lab chaos"},
		{Args: []string{"bench-child", "dance"}, Code: 2, Talk: "use raysys-lab bench"},
		{Args: []string{"bench", "--row", "tasks_sync"}, Variables: []string{"RAYSYS_CPU=0.5"}, Code: 1, Talk: "1 of 1 rows failed: run raysys-lab bench --tier in-process --row tasks_sync"},
		{Args: []string{"simulate", "--nodes", "0"}, Code: 2, Talk: "error: raysys-lab simulate: 0 nodes: it must be 1 to 100000\n"},
	})
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("received signal: interrupt"))
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"bench", "--row", "tasks_sync"}, strings.NewReader(""), &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "bench stopped in row tasks_sync: received signal: interrupt") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}

func TestPrintConfig(t *testing.T) {
	stdout, stderr, code := clitest.InProcess(t, run, []string{"bench", "--print-config"}, nil)
	if code != 0 || stderr != "" || !strings.Contains(strings.Join(strings.Fields(stdout), " "), " rounds 5 default ") {
		t.Errorf("exit %d: %q, %q", code, stdout, stderr)
	}
}

func TestSimulate(t *testing.T) {
	stdout, stderr, code := clitest.InProcess(t, run, []string{"simulate", "--nodes", "20", "--tasks", "1000", "--deaths", "2", "--seed", "3"}, nil)
	if code != 0 || !strings.Contains(stdout, " of the least there is") || !strings.Contains(stdout, " after 2 deaths\n") {
		t.Errorf("exit %d: %q, %q", code, stdout, stderr)
	}
}
