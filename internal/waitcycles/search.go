package waitcycles

import (
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

const (
	maxProbed = 4096 // waits of one search: a turn that depends on more counts as one that can go on
	maxBroken = 64   // calls that give way in one search
)

// Engine is an engine of a node: it knows which work other nodes do for this one, and which this one does for others.
type Engine interface {
	// Away returns the node that computes a future, and the number of the work between the two; false when this node does.
	Away(*core.Future) (p wire.Peer, number uint64, ok bool)
	// Inbound returns the future of work that a node has sent under that number, nil when it is over.
	Inbound(from wire.Peer, number uint64) *core.Future
}

// Grains is the engine of grains, which also reports whether a call leaves this node.
type Grains interface {
	Engine
	Leaves(*core.Future) bool
}

// Config is what a Prober asks of its node.
type Config struct {
	Self   func() core.NodeKey
	Peer   func(core.NodeKey) *refs.Session // nil when there is no connection
	Refs   *refs.References
	Tasks  Engine
	Grains Grains
	Runner *runner.Runner
}

// Prober looks for cycles of waits over nodes; it implements core.Prober.
type Prober struct {
	Config
	mu   sync.Mutex // guards open
	open map[*core.Turn]bool
}

// New makes the prober of a node.
func New(c Config) *Prober { return &Prober{Config: c} }

// far names work that another node computes: a call, a task or a reference, by its number between two nodes.
type far struct {
	at     core.NodeKey // the node that computes it
	kind   farKind
	from   core.NodeKey // the node that gave it the number: the sender of the call or task; the exporter of the reference
	number uint64
}

type farKind byte

const (
	farCall farKind = iota
	farTask
	farRef
)

// Away implements core.Prober.
func (pr *Prober) Away(c *core.Future) bool {
	if c.Away() || refs.RemoteOf(c) != nil {
		return true
	}
	return pr.Grains.Leaves(c)
}

// where finds the node that computes a future; false when this node does.
func (pr *Prober) where(future *core.Future) (f far, ok bool) {
	if s := refs.RemoteOf(future); s != nil {
		return far{s.Owner, farRef, s.Owner, s.Number}, true
	}
	f.kind, f.from = farCall, pr.Self()
	p, number, ok := pr.Grains.Away(future)
	if !ok {
		f.kind = farTask
		if p, number, ok = pr.Tasks.Away(future); !ok {
			return f, false
		}
	}
	f.at, f.number = core.NodeKey{Node: p.Node(), Incarnation: p.Incarnation()}, number
	return f, true
}

// here finds the future that f names on this node, nil when it is over.
func (pr *Prober) here(f far) *core.Future {
	if f.kind == farRef {
		return pr.Refs.Future(f.number)
	}
	p := pr.Peer(f.from)
	switch {
	case p == nil:
		return nil
	case f.kind == farCall:
		return pr.Grains.Inbound(p, f.number)
	}
	return pr.Tasks.Inbound(p, f.number)
}

// Probe implements core.Prober.
func (pr *Prober) Probe(t *core.Turn) {
	t = t.Base()
	if !pr.begin(t) {
		return
	}
	pr.Runner.Background(func() { defer pr.end(t); pr.probe(t) }, func(error) { pr.end(t) })
}

// begin claims the search for t; false while there is one.
func (pr *Prober) begin(t *core.Turn) bool {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.open[t] {
		return false
	}
	if pr.open == nil {
		pr.open = map[*core.Turn]bool{}
	}
	pr.open[t] = true
	return true
}

func (pr *Prober) end(t *core.Turn) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	delete(pr.open, t)
}

// probe breaks the cycles that t is in.
func (pr *Prober) probe(t *core.Turn) {
	gave := map[probed]bool{}
	for range maxBroken {
		first := pr.listWaits(t, gave)
		if !first.stuck() {
			return
		}
		again := pr.listWaits(t, gave)
		if !again.stuck() || !again.within(first) {
			return
		}
		chain, queued := core.WayBack(again.waits)
		if len(queued) == 0 {
			return // t depends on a cycle of other turns, whose own probes break it
		}
		victim := queued[0]
		for _, i := range queued {
			if before(again.keys[i].id, again.keys[victim].id) {
				victim = i
			}
		}
		if !again.giveWay(victim, chain) {
			return
		}
		gave[again.keys[victim]] = true
	}
}

func before(a, b raysys.TaskID) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// probed names a wait in the cluster.
type probed struct {
	at core.NodeKey
	id raysys.TaskID
}

// waitGraph is the result of one look.
type waitGraph struct {
	pr    *Prober
	waits []core.Waiting
	keys  []probed // of waits; zero for a wait that is Far, which stands for the waits at its node
	found []far    // of waits: the question by which they were found; zero for those that this node listed for the turn itself
	index map[probed]int
	roots map[far]int // by question: the index in waits of the first wait of the answer
	fars  []far       // of waits that are Far: the work at the other node
}

// listWaits lists what t waits for over all nodes. gave are calls that gave way already.
func (pr *Prober) listWaits(t *core.Turn, gave map[probed]bool) *waitGraph {
	g := &waitGraph{pr: pr, index: map[probed]int{}, roots: map[far]int{}}
	own, fars := pr.describe(func(away func(*core.Future) bool) []core.Waiting { return core.Waits(t, away) })
	g.merge(far{}, pr.Self(), own, fars, gave)
	for i := 0; i < len(g.waits); i++ {
		if !g.waits[i].Far {
			continue
		}
		f := g.fars[i]
		root, known := g.roots[f]
		if !known {
			root = -1
			if len(g.waits) < maxProbed {
				list, fars := pr.askComputingNode(f)
				root = g.merge(f, f.at, list, fars, gave)
			}
			g.roots[f] = root
		}
		if root < 0 {
			g.waits[i].Free = 1
		} else {
			g.waits[i].On = []int{root}
		}
	}
	return g
}

// merge adds a list of waits, and returns the index of its first in g.waits; -1 when the list is empty.
func (g *waitGraph) merge(found far, at core.NodeKey, list []core.Waiting, fars []far, gave map[probed]bool) int {
	if len(list) == 0 {
		return -1
	}
	place := make([]int, len(list))
	added := make([]bool, len(list))
	for i, w := range list {
		k := probed{}
		if !w.Far {
			k = probed{at, w.ID}
			if j, ok := g.index[k]; ok {
				place[i] = j
				continue
			}
			g.index[k] = len(g.waits)
		}
		place[i], added[i] = len(g.waits), true
		g.waits, g.keys = append(g.waits, w), append(g.keys, k)
		g.found, g.fars = append(g.found, found), append(g.fars, fars[i])
	}
	for i, w := range list {
		if !added[i] {
			continue
		}
		n := &g.waits[place[i]]
		n.On = make([]int, len(w.On))
		for j, on := range w.On {
			n.On[j] = place[on]
		}
		if gave[g.keys[place[i]]] {
			n.Need, n.On = 0, nil
		}
	}
	return place[0]
}

func (g *waitGraph) stuck() bool { return core.Stuck(g.waits) }

// within reports whether all waits that the turn is stuck with were there in the look before, too.
func (g *waitGraph) within(before *waitGraph) bool {
	for _, i := range core.StuckWith(g.waits) {
		if g.waits[i].Far {
			continue
		}
		if _, ok := before.index[g.keys[i]]; !ok {
			return false
		}
	}
	return true
}

// giveWay has the call of wait i give way.
func (g *waitGraph) giveWay(i int, chain []string) bool {
	if future := g.waits[i].Future(); future != nil {
		return future.Work().Break(chain)
	}
	return g.pr.askBreak(g.found[i], g.keys[i].id, chain)
}

// describe lists waits of this node. For those on other nodes' work it names that work.
func (pr *Prober) describe(list func(away func(*core.Future) bool) []core.Waiting) ([]core.Waiting, []far) {
	named := map[*core.Future]far{}
	waits := list(func(future *core.Future) bool {
		f, ok := pr.where(future)
		if ok {
			named[future] = f
		}
		return ok
	})
	fars := make([]far, len(waits))
	for i := range waits {
		if waits[i].Far {
			fars[i] = named[waits[i].Future()]
		}
	}
	return waits, fars
}

// waitsOf lists what f, which this node computes, waits for.
func (pr *Prober) waitsOf(f far) ([]core.Waiting, []far) {
	future := pr.here(f)
	if future == nil {
		return nil, nil
	}
	return pr.describe(func(away func(*core.Future) bool) []core.Waiting { return core.WaitsOf(future, away) })
}

// breakHere has the call with that id give way, on which f depends.
func (pr *Prober) breakHere(f far, id raysys.TaskID, chain []string) bool {
	waits, _ := pr.waitsOf(f)
	for i := range waits {
		if w := &waits[i]; w.Queued && w.ID == id {
			return w.Future().Work().Break(chain)
		}
	}
	return false
}
