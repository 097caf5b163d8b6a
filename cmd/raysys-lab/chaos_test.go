package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/internal/clitest"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/chaos"
	"github.com/raysys/raysys/testkit"
)

// A round runs in a process of its own, and its report has the plan and what the program was told.
func TestChaosRound(t *testing.T) {
	stdout, stderr, code := clitest.Command(t, []string{"chaos", "--seed", "7", "--rounds", "1", "--nodes", "2", "--length", "10s", "-o", "json"}, []string{"RAYSYS_TESTKIT_SEED=9"})
	var rep chaos.Report
	if err := json.Unmarshal([]byte(stdout), &rep); err != nil || code != 0 {
		t.Fatalf("exit %d, %v:\n%s\n%s", code, err, stdout, stderr)
	}
	if rep.Seed != 7 || len(rep.Plan) == 0 || len(rep.Counts) < 4 || rep.Virtual < 10*time.Second {
		t.Errorf("the report is %+v", rep)
	}
	if !strings.HasPrefix(stderr, "seed 7,") {
		t.Errorf("standard error does not begin with the seed: %q", stderr)
	}
}

// The command in the report repeats the round, whatever was asked for.
func TestChaosReplay(t *testing.T) {
	for _, o := range []chaos.Round{
		{Seed: 5, Nodes: 3, Length: 3 * time.Minute},
		{Seed: 1 << 62, Nodes: 4, Length: 90 * time.Second, Faults: []testkit.Fault{"kill", "lose"}, Only: []int{2, 11}},
		{Seed: 8, Nodes: 3, Length: time.Minute, Faults: []testkit.Fault{"slow-disk"}, RealTime: true},
		{Seed: 6, Nodes: 2, Length: time.Hour, Processes: true},
	} {
		var again chaosFlags
		cmd := &cobra.Command{}
		again.define(cmd.Flags())
		if err := cmd.ParseFlags(strings.Fields(replay(o))[2:]); err != nil {
			t.Fatal(err)
		}
		if err := again.check(cmd.Flags().Changed("only")); err != nil || replay(again.round(0)) != replay(o) {
			t.Errorf("%s gives %s, %v", replay(o), replay(again.round(0)), err)
		}
	}
}
