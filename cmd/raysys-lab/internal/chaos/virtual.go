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
var workloads = []func(*raysys.Table) workload{
	registers, durables, trees, lineages, adoptions, blobs, shelves, outboxes,
}

// Round says what a round is made of. The same Round gives the same plan and the same draws of the clients.
type Round struct {
	Seed   uint64          `json:"seed"`
	Nodes  int             `json:"nodes"`
	Length time.Duration   `json:"length_ns"` // of the plan
	Faults []testkit.Fault `json:"faults,omitempty"`
	Only   []int           `json:"only,omitempty"` // events of the plan that happen; nil: all
	// RealTime has stores that are short of room, and disks; Processes, a process for each node and a real Consul.
	RealTime  bool `json:"real_time,omitempty"`
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
	// Played is how often each fault took effect: see testkit.Cluster.Played.
	Played map[testkit.Fault]int `json:"played"`
	// First and Last are what processes needed at most after the warm-up and in the end.
	First *Needs `json:"first,omitempty"`
	Last  *Needs `json:"last,omitempty"`
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

// Faults is how often each fault took effect.
func (rep Report) Faults() string {
	var words []string
	for _, f := range testkit.Faults() {
		if n := rep.Played[f]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", f, n))
		}
	}
	return strings.Join(words, ", ")
}

// Events is how many faults happened.
func (rep Report) Events() int { return len(rep.Plan) }

func (rep *Report) setPlan(p testkit.Plan) {
	for line := range strings.Lines(p.String()) {
		rep.Plan = append(rep.Plan, strings.TrimRight(line, "\n"))
	}
}

// The leases of the nodes, the short one in real time.
const (
	usualTTL = 10 * time.Second
	shortTTL = 3 * time.Second
)

func (o Round) ttl() time.Duration {
	if o.RealTime {
		return shortTTL
	}
	return usualTTL
}

// FaultsOf are the faults of such rounds. In virtual time the stores have room: one that is short of it is told of free room
// by the collector's goroutine, which belongs to no test in virtual time. So nothing is written to a disk there.
func (o Round) FaultsOf() []testkit.Fault {
	switch {
	case o.Processes:
		return []testkit.Fault{testkit.FaultKill, testkit.FaultPause, testkit.FaultExpire, testkit.FaultOutage, testkit.FaultDrain, testkit.FaultSlowStore}
	case o.RealTime:
		return testkit.Faults()
	}
	return slices.DeleteFunc(testkit.Faults(), func(f testkit.Fault) bool { return f == testkit.FaultSlowDisk })
}

// plan is the faults of the round.
func (o Round) plan() testkit.Plan {
	faults := o.Faults
	if len(faults) == 0 {
		faults = o.FaultsOf()
	}
	p := testkit.DrawPlan(o.Seed, o.Nodes, o.ttl(), o.Length, faults...)
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

// Activations implements cluster.
func (kitCluster) Activations(_ string, local *testkit.Activations) *testkit.Activations {
	return local
}

// Run is one round in one process, reported in rep also when the testkit ends the test.
func Run(t *testing.T, o Round, rep *Report) {
	rep.Round = o
	plan := o.plan()
	rep.setPlan(plan)
	began := time.Now()
	defer func() { rep.Took = time.Since(began) }()
	tb := raysys.NewTable()
	parts, _ := define(tb)
	objects := system.ObjectConfig{Memory: 256 << 20}
	if o.RealTime {
		objects.Memory = 1 << 20 // less than what has a name at one time, however slow the machine
	}
	under := []testkit.Option{
		testkit.Seed(o.Seed), testkit.Nodes(o.Nodes), testkit.Table(tb), testkit.TTL(o.ttl()), testkit.CPU(4), testkit.Loose(),
		testkit.Each(func(_ int, cfg *system.Config) { cfg.Objects, cfg.Lineage = objects, system.LineageDurable }),
	}
	perform := func(k *testkit.Kit) {
		began := time.Now()
		r := newRound(k.T(), kitCluster{k.Cluster()}, o)
		defer r.finish() // also when the testkit ends the test: else no clock would stand still
		defer func() {
			rep.Counts, rep.Violations, rep.Virtual, rep.Played = r.counts, r.violations, time.Since(began), k.Cluster().Played()
		}()
		for _, w := range parts {
			w.start(r)
		}
		<-time.After(o.ttl() / 2) // without faults nothing fails
		r.stormy()
		k.Cluster().Play(plan)
		<-time.After(4 * o.ttl())
		k.Cluster().Ready()
		r.quiet()
		<-time.After(2 * o.ttl())
		r.stop()
		for _, w := range parts {
			if w.end != nil {
				w.end(r)
			}
		}
		r.atRest(k.Cluster())
	}
	if o.RealTime {
		perform(testkit.New(t, under...))
	} else {
		testkit.Virtual(t, perform, under...)
	}
}
