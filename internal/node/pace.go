package node

import (
	"sync"
	"time"
)

// Pace measures how fast objects are fetched to this node. Placement estimates the time to move a value by it. Other
// nodes learn it with this node's load.
type Pace struct {
	mu   sync.Mutex // guards the rest
	rate float64    // bytes per second, over the last few objects
	told int64      // the rate that other nodes are told
}

// paceSize is the least size of an object that is measured: the fetch of a smaller one is mostly questions and answers.
const paceSize = 1 << 20

// Saw takes a fetch of an object into account.
func (p *Pace) Saw(bytes int64, took time.Duration) {
	if bytes < paceSize || took <= 0 {
		return
	}
	now := float64(bytes) / took.Seconds()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		p.rate = now
	}
	p.rate += (now - p.rate) / 4 // the last four count for two thirds
	// A load is sent whenever it has changed, so small changes of the rate are not told.
	if t := float64(p.told); p.rate > t*5/4 || p.rate < t*3/4 {
		p.told = int64(p.rate)
	}
}

// Bandwidth returns the rate that other nodes are told, in bytes per second; 0 while it is unknown.
func (p *Pace) Bandwidth() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}
