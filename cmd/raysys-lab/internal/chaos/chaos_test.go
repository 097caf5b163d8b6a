package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestRounds: the program keeps its laws under every fault. A failure names the law, and what repeats the round.
func TestRounds(t *testing.T) {
	played := map[testkit.Fault]int{}
	for seed := range uint64(long.Form(2, 200)) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			var rep Report
			Run(t, Round{Seed: seed + 1, Nodes: 3, Length: long.Form(30*time.Second, 4*time.Minute)}, &rep)
			for _, v := range rep.Violations {
				t.Errorf("%s: %s\n%s", v.Law, v.Workload, v.Detail)
			}
			if t.Failed() {
				for _, e := range rep.Plan {
					t.Log(e)
				}
			}
			t.Logf("%s in %v (%v of virtual time), under %s", rep.Summary(), rep.Took, rep.Virtual, rep.Faults())
			for f, n := range rep.Played {
				played[f] += n
			}
		})
	}
	for _, f := range (Round{}).FaultsOf() {
		if played[f] == 0 && long.Form(false, true) {
			t.Errorf("the fault %q took effect in no round", f)
		}
	}
}

// TestRealTime: the laws hold where stores are short of memory and disks are slow.
func TestRealTime(t *testing.T) {
	long.Only(t) // minutes of real time
	var rep Report
	Run(t, Round{Seed: 1, Nodes: 3, Length: 2 * time.Minute, Faults: []testkit.Fault{testkit.FaultKill, testkit.FaultSlowDisk}, RealTime: true}, &rep)
	for _, v := range rep.Violations {
		t.Errorf("%s: %s\n%s", v.Law, v.Workload, v.Detail)
	}
	if rep.Played[testkit.FaultSlowDisk] == 0 || rep.Played[testkit.FaultKill] == 0 {
		t.Errorf("took effect: %s", rep.Faults())
	}
}

// TestMinimize: what remains of a plan are the events that the failure needs.
func TestMinimize(t *testing.T) {
	o := Round{Seed: 3, Nodes: 3, Length: time.Minute}
	if n := len(o.plan()); n < 8 {
		t.Fatalf("the plan has %d events: too few to leave any out", n)
	}
	tried := 0
	fails := func(o Round) (Report, error) {
		tried++
		rep := Report{Round: o}
		if has := func(n int) bool { return slices.Contains(o.Only, n) }; has(2) && has(5) {
			rep.Violations = []Violation{{Law: "any"}}
		}
		return rep, nil
	}
	rep, err := Minimize(Report{Round: o}, fails, func(int, bool) {})
	if err != nil || !slices.Equal(rep.Only, []int{2, 5}) || len(rep.Violations) != 1 {
		t.Errorf("events %d remain of a failure that needs 2 and 5 (%v): %+v", rep.Only, err, rep)
	}
	if most := 3 * len(o.plan()); tried > most {
		t.Errorf("it took %d rounds, want at most %d", tried, most)
	}
	rep, err = Minimize(Report{Round: o}, func(o Round) (Report, error) {
		return Report{Round: o, Violations: []Violation{{Law: "any"}}}, nil
	}, func(int, bool) {})
	if err != nil || rep.Only == nil || len(rep.Only) != 0 {
		t.Errorf("events %d (%v) remain of a failure that needs none", rep.Only, err)
	}
}
