package linktest

import (
	"math/rand/v2"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// Frame is one that a node is about to send.
type Frame struct {
	From, To raysys.NodeID
	Class    wire.Class
	Kind     wire.Kind // see internal/wire; a rule need not look at it
}

// Chaos decides about frames by rules: one rule for each thing that can happen to a frame.
type Chaos struct {
	mu   sync.Mutex // guards the rest
	rng  *rand.Rand
	list map[link.Action]func(Frame) bool
	odds map[link.Action]float64
	done map[link.Action]int
}

// NewChaos makes one without rules, whose draws repeat under one seed.
func NewChaos(seed uint64) *Chaos {
	return &Chaos{rng: rand.New(rand.NewPCG(seed, 0x6672616d)), list: map[link.Action]func(Frame) bool{}, odds: map[link.Action]float64{}, done: map[link.Action]int{}}
}

// Set has a done to frames for which rule holds, each with probability p, in place of the former rule about a. A nil rule
// holds for all.
func (c *Chaos) Set(a link.Action, p float64, rule func(Frame) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rule == nil {
		rule = func(Frame) bool { return true }
	}
	c.list[a], c.odds[a] = rule, p
}

// Clear forgets all rules.
func (c *Chaos) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.list)
}

// Decide draws what happens to a frame. Rules are called one at a time.
func (c *Chaos) Decide(f Frame) link.Action {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range [...]link.Action{link.Drop, link.Duplicate, link.Reorder} {
		if rule := c.list[a]; rule != nil && rule(f) && c.rng.Float64() < c.odds[a] {
			c.done[a]++
			return a
		}
	}
	return link.Pass
}

// Count is how many frames a was done to.
func (c *Chaos) Count(a link.Action) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[a]
}
