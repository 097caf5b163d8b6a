package testkit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault names one kind of thing that happens to a cluster.
type Fault string

// The faults of a Plan. The first group disrupts: one of them at a time, with at most one kill of another node beside it.
// The second is noise, which goes on beside the first.
const (
	FaultKill      Fault = "kill"      // a node dies and starts again
	FaultPause     Fault = "pause"     // a node stands still, also for longer than its lease
	FaultPartition Fault = "partition" // a group of nodes and the rest hear nothing of each other
	FaultOneWay    Fault = "one-way"   // one node does not hear another
	FaultOutage    Fault = "outage"    // the store is away, from all nodes or from one
	FaultClock     Fault = "clock"     // a node's time of day jumps
	FaultExpire    Fault = "expire"    // a node's session in the store ends
	FaultDrain     Fault = "drain"     // a node leaves in good order and comes back

	FaultLose      Fault = "lose"       // frames are lost
	FaultRepeat    Fault = "repeat"     // answers are sent twice; a stream repeats no request
	FaultSwap      Fault = "swap"       // answers change places; a stream keeps requests in order
	FaultDelay     Fault = "delay"      // everything between two nodes takes longer
	FaultReset     Fault = "reset"      // the connections between two nodes break
	FaultSlowStore Fault = "slow-store" // each call to the store takes longer
	FaultSlowDisk  Fault = "slow-disk"  // each write of a node to its spill directory takes longer
)

var (
	disruptions = []Fault{FaultKill, FaultPause, FaultPartition, FaultOneWay, FaultOutage, FaultClock, FaultExpire, FaultDrain}
	noises      = []Fault{FaultLose, FaultRepeat, FaultSwap, FaultDelay, FaultReset, FaultSlowStore, FaultSlowDisk}
)

// Faults are all faults of a Plan.
func Faults() []Fault { return slices.Concat(disruptions, noises) }

// Event is one fault of a Plan.
type Event struct {
	Number int           `json:"number"`        // in the plan that was drawn
	At     time.Duration `json:"at"`            // since the plan began
	For    time.Duration `json:"for,omitempty"` // until it is undone; 0 for what needs no undoing
	Fault  Fault         `json:"fault"`
	// Nodes are those that it happens to: the one, the two in their order, or one side of a partition. None: all.
	Nodes []int         `json:"nodes,omitempty"`
	By    time.Duration `json:"by,omitempty"`   // of a jump or a delay
	Odds  float64       `json:"odds,omitempty"` // of a frame
}

func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8v %s", e.At, e.Fault)
	for _, n := range e.Nodes {
		if n == 0 {
			b.WriteString(" test")
		} else {
			fmt.Fprintf(&b, " n%d", n)
		}
	}
	if e.By != 0 {
		fmt.Fprintf(&b, " by %v", e.By)
	}
	if e.Odds != 0 {
		fmt.Fprintf(&b, " %.1f%% of frames", 100*e.Odds)
	}
	if e.For != 0 {
		fmt.Fprintf(&b, " for %v", e.For)
	}
	return b.String()
}

// Plan is a sequence of faults in the order of their begin.
type Plan []Event

func (p Plan) String() string {
	var b strings.Builder
	for _, e := range p {
		fmt.Fprintf(&b, "%3d %v\n", e.Number, e)
	}
	return b.String()
}

// Only is the plan without all other events than those with these numbers.
func (p Plan) Only(numbers ...int) Plan {
	return slices.DeleteFunc(slices.Clone(p), func(e Event) bool { return !slices.Contains(numbers, e.Number) })
}

// DrawPlan draws a plan for a cluster of nodes with leases of ttl that lasts about length; no faults means all. The same
// arguments give the same plan. The test's own node, 0, is cut off for less than its lease only: nothing starts it again.
func DrawPlan(seed uint64, nodes int, ttl, length time.Duration, faults ...Fault) Plan {
	if len(faults) == 0 {
		faults = Faults()
	}
	d := drawing{rand.New(rand.NewPCG(seed, 0x706c616e)), nodes, ttl}
	have := func(from []Fault) (list []Fault) {
		for _, f := range from {
			if slices.Contains(faults, f) {
				list = append(list, f)
			}
		}
		return list
	}
	var p Plan
	if list := have(disruptions); len(list) > 0 {
		for at := d.upTo(ttl / 2); at < length; {
			e := d.event(list[d.rng.IntN(len(list))], at)
			p = append(p, e)
			if e.Fault != FaultKill && e.For > 0 && d.rng.IntN(3) == 0 && slices.Contains(list, FaultKill) {
				p = append(p, d.event(FaultKill, at+d.upTo(e.For)))
			}
			at += e.For + d.upTo(ttl)
		}
	}
	if list := have(noises); len(list) > 0 {
		for at := d.upTo(ttl / 2); at < length; {
			e := d.event(list[d.rng.IntN(len(list))], at)
			p = append(p, e)
			at += e.For + d.upTo(ttl/2)
		}
	}
	slices.SortStableFunc(p, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for i := range p {
		p[i].Number = i
	}
	return p
}

type drawing struct {
	rng   *rand.Rand
	nodes int
	ttl   time.Duration
}

// upTo is a whole number of milliseconds.
func (d drawing) upTo(limit time.Duration) time.Duration {
	return time.Duration(1+d.rng.Int64N(max(1, limit.Milliseconds()))) * time.Millisecond
}

func (d drawing) node() int { return 1 + d.rng.IntN(d.nodes) }

// pair is two nodes, the second of which may be the test's own.
func (d drawing) pair() []int {
	i, j := d.node(), d.rng.IntN(d.nodes)
	if j >= i {
		j++
	}
	return []int{i, j}
}

func (d drawing) event(f Fault, at time.Duration) Event {
	e := Event{At: at, Fault: f}
	switch f {
	case FaultKill, FaultDrain:
		e.Nodes, e.For = []int{d.node()}, d.upTo(d.ttl/3)
	case FaultPause:
		e.Nodes, e.For = []int{d.node()}, d.upTo(d.ttl/2)
		if d.rng.IntN(2) == 0 {
			e.For += d.ttl + d.upTo(d.ttl)
		}
	case FaultPartition:
		for i := range d.nodes + 1 {
			if d.rng.IntN(2) == 0 {
				e.Nodes = append(e.Nodes, i)
			}
		}
		if len(e.Nodes) == 0 || len(e.Nodes) > d.nodes {
			e.Nodes = []int{d.node()}
		}
		e.For = d.upTo(5 * d.ttl / 2)
	case FaultOneWay:
		e.Nodes, e.For = d.pair(), d.upTo(5*d.ttl/2)
	case FaultOutage:
		e.For = d.upTo(2 * d.ttl)
		if d.rng.IntN(3) > 0 {
			e.Nodes, e.For = []int{d.node()}, d.upTo(3*d.ttl)
		}
	case FaultClock:
		e.Nodes, e.By = []int{d.node()}, d.upTo(4*d.ttl)-2*d.ttl
	case FaultExpire:
		e.Nodes = []int{d.node()}
	case FaultLose, FaultRepeat, FaultSwap:
		e.Odds, e.For = float64(1+d.rng.IntN(30))/1000, d.upTo(2*d.ttl)
	case FaultDelay:
		e.Nodes, e.By, e.For = d.pair(), d.upTo(200*time.Millisecond), d.upTo(2*d.ttl)
	case FaultReset:
		e.Nodes = d.pair()
	case FaultSlowStore:
		e.By, e.For = d.upTo(d.ttl/10), d.upTo(2*d.ttl)
	case FaultSlowDisk:
		e.Nodes, e.By, e.For = []int{d.node()}, d.upTo(300*time.Millisecond), d.upTo(2*d.ttl)
	default:
		panic(fmt.Sprintf("testkit: there is no fault %q", f))
	}
	return e
}
