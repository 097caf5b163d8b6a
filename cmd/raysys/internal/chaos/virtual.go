package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// workloads make the parts of the program, each of which defines what it runs in the table.
var workloads = []func(*raysys.Table) workload{registers, trees, blobs, shelves}

// Round says what a round is made of. The same Round gives the same plan and the same draws of the clients.
type Round struct {
	Seed   uint64          `json:"seed"`
	Nodes  int             `json:"nodes"`
	Length time.Duration   `json:"length_ns"` // of the plan, in virtual time where there is one
	Faults []testkit.Fault `json:"faults,omitempty"`
	Only   []int           `json:"only,omitempty"` // events of the plan that happen; nil: all
	// Processes are the nodes, on a real Consul.
	Processes bool `json:"processes,omitempty"`
}

// Report is what became of a round.
type Report struct {
	Round
	Plan       []string          `json:"plan"`
	Took       time.Duration     `json:"took_ns"`
	Virtual    time.Duration     `json:"virtual_ns,omitempty"`
	Counts     map[string]*count `json:"counts"`
	Violations []Violation       `json:"violations,omitempty"`
}

// Summary is what the workloads were told: answers/errors.
func (rep Report) Summary() string {
	var words []string
	for name, c := range rep.Counts {
		words = append(words, fmt.Sprintf("%s %d/%d", name, c.Answers, c.Errors))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// Events is how many faults happened.
func (rep Report) Events() int { return len(rep.Plan) }

func (rep *Report) setPlan(p testkit.Plan) {
	for line := range strings.Lines(p.String()) {
		rep.Plan = append(rep.Plan, strings.TrimRight(line, "\n"))
	}
}

// The leases of the nodes, in virtual time and as processes.
const (
	ttl        = 10 * time.Second
	processTTL = 3 * time.Second
)

// ProcessFaults are the faults of rounds with processes.
func ProcessFaults() []testkit.Fault {
	return []testkit.Fault{testkit.FaultKill, testkit.FaultPause, testkit.FaultExpire, testkit.FaultOutage}
}

// plan is the faults of the round.
func (o Round) plan() testkit.Plan {
	lease, faults := ttl, o.Faults
	if o.Processes {
		if lease = processTTL; faults == nil {
			faults = ProcessFaults()
		}
	}
	p := testkit.DrawPlan(o.Seed, o.Nodes, lease, o.Length, faults...)
	if o.Only != nil {
		p = p.Only(o.Only...)
	}
	return p
}

// kitCluster is a testkit's cluster as a round sees it.
type kitCluster struct{ *testkit.Cluster }

// Lives implements cluster.
func (c kitCluster) Lives() []any {
	lives := make([]any, c.Size()+1)
	for i := range lives {
		if n := c.Node(i); n != nil && n.Err() == nil {
			lives[i] = n
		}
	}
	return lives
}

// Run is one round in virtual time, reported in rep also when the testkit ends the test.
func Run(t *testing.T, o Round, rep *Report) {
	rep.Round = o
	plan := o.plan()
	rep.setPlan(plan)
	began := time.Now()
	defer func() { rep.Took = time.Since(began) }()
	tb := raysys.NewTable()
	var parts []workload
	for _, define := range workloads {
		parts = append(parts, define(tb))
	}
	testkit.Virtual(t, func(k *testkit.Kit) {
		began := time.Now()
		r := newRound(k.T(), kitCluster{k.Cluster()}, o.Seed)
		defer r.finish() // also when the testkit ends the test: else no clock would stand still
		defer func() { rep.Counts, rep.Violations, rep.Virtual = r.counts, r.violations, time.Since(began) }()
		for _, w := range parts {
			w.start(r)
		}
		k.Advance(ttl / 2) // without faults nothing fails
		r.stormy()
		k.Cluster().Play(plan)
		k.Advance(4 * ttl)
		k.Cluster().Ready()
		r.quiet()
		k.Advance(2 * ttl)
		r.stop()
		for _, w := range parts {
			if w.end != nil {
				w.end(r)
			}
		}
		r.atRest(k.Cluster())
	}, testkit.Seed(o.Seed), testkit.Nodes(o.Nodes), testkit.Table(tb), testkit.TTL(ttl), testkit.CPU(4), testkit.Loose(),
		testkit.Each(func(_ int, cfg *system.Config) { cfg.Objects = system.ObjectConfig{Memory: 4 << 20} }))
}
