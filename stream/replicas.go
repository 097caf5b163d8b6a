package stream

import (
	"time"

	"github.com/raysys/raysys/stream/internal/bus"
)

// replicas is how many servers should have a stream.
const replicas = 3

// copies is on how many servers a stream lies, and on how many it should. The zero copies is not known.
type copies struct{ have, want int }

// lookAtCopies is how often the agent of part 0 looks at them.
const lookAtCopies = time.Hour

// replicate has a stream get the copies that it should have: it may have been made while a server was away, or before there were so many.
func (p *pump) replicate() {
	tick := time.NewTicker(lookAtCopies)
	defer tick.Stop()
	for {
		p.insist("the copies of a stream cannot be looked at: it is tried again", func() error {
			b, err := p.n.ensure(p.ctx, p.s.d)
			if err != nil {
				return err
			}
			return p.copy(b)
		})
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// copy looks once. What the server refuses is looked at again in an hour.
func (p *pump) copy(b bus.Bus) error {
	have, want, err := b.Replicate(p.ctx, p.n.nameOf(p.s.d), replicas)
	p.n.missed(p.s.d, err)
	if have == 0 {
		return err
	}
	if have < want {
		p.log().Warn("a stream has fewer copies than it should have", "copies", have, "wanted", want, "error", err)
	}
	_, _, _ = b.Replicate(p.ctx, p.n.nameOf(p.s.d.parked()), replicas) // which may not be there
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.copies = copies{have, want}
	return nil
}
