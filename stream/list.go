package stream

import (
	"strings"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/listed"
	"github.com/raysys/raysys/system"
)

func init() {
	listed.Register("streams", func(of any) any { return entry(of.(*system.Node)).list() })
}

// list is what this node delivers, for `raysys list streams`.
func (n *node) list() []inspect.StreamPart {
	n.mu.Lock()
	pumps := make([]*pump, 0, len(n.pumps))
	for p := range n.pumps {
		pumps = append(pumps, p)
	}
	n.mu.Unlock()
	parts := []inspect.StreamPart{}
	for _, p := range pumps {
		at := p.at()
		p.mu.Lock()
		failing, left := 0, 0 // left to be taken, of what was read
		for _, t := range p.targets {
			left += len(t.queue) + t.left
			if t.tries > 0 {
				failing++
			}
		}
		parts = append(parts, inspect.StreamPart{
			Node: n.of.Name(), Namespace: n.of.Namespace(), Stream: p.s.d.name, To: strings.TrimPrefix(p.s.name, p.s.d.name+">"), Part: p.partition, Floor: at.Floor, Stores: at.Generation, Since: at.Began,
			Lag: p.stats.pending + uint64(left), Failing: failing, Parked: p.stats.parked, Dropped: p.stats.dropped, Rate: p.stats.rate, Copies: p.stats.copies.have, Wanted: p.stats.copies.want,
		})
		p.mu.Unlock()
	}
	return parts
}
