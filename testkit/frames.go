package testkit

import (
	"math/rand/v2"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
)

// Frame is one that a node is about to send.
type Frame struct {
	From, To raysys.NodeID
	Class    link.Class
	Kind     link.Kind // see internal/wire; a rule need not look at it
}

// rules decide about frames, one rule for each thing that can happen to them.
type rules struct {
	mu   sync.Mutex // guards the rest
	rng  *rand.Rand
	list map[link.Action]func(Frame) bool
	odds map[link.Action]float64
}

func newRules(seed uint64) *rules {
	return &rules{rng: rand.New(rand.NewPCG(seed, 0x6672616d)), list: map[link.Action]func(Frame) bool{}, odds: map[link.Action]float64{}}
}

func (r *rules) set(a link.Action, p float64, rule func(Frame) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rule == nil {
		rule = func(Frame) bool { return true }
	}
	r.list[a], r.odds[a] = rule, p
}

func (r *rules) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.list)
}

func (r *rules) decide(f Frame) link.Action {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range [...]link.Action{link.Drop, link.Duplicate, link.Reorder} {
		if rule := r.list[a]; rule != nil && rule(f) && r.rng.Float64() < r.odds[a] {
			return a
		}
	}
	return link.Pass
}

// Drop loses frames for which rule holds, each with probability p, until Heal. A nil rule holds for all. A stream loses
// no frame while it lives: the receiver notices within a ping that frames are missing, and the connection is made anew
// within 6 s, so that every request has an end. One rule is kept: another Drop replaces it. Rules are called one at a
// time.
func (c *Cluster) Drop(p float64, rule func(Frame) bool) { c.rules.set(link.Drop, p, rule) }

// Duplicate sends frames twice; see Drop.
func (c *Cluster) Duplicate(p float64, rule func(Frame) bool) { c.rules.set(link.Duplicate, p, rule) }

// Reorder sends frames after the next of their class and connection; see Drop.
func (c *Cluster) Reorder(p float64, rule func(Frame) bool) { c.rules.set(link.Reorder, p, rule) }
