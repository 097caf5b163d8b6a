package system

import (
	"sync"
	"time"
)

// pace is how fast objects come to this node, as seen in those that came: what placement goes by when it weighs the time to
// move a value. Other nodes learn it with this node's load.
type pace struct {
	mu   sync.Mutex // guards the rest
	rate float64    // bytes per second, of the last few objects
	told int64      // what others know
}

// paceSize is what an object must have to tell something: a smaller one is mostly questions and answers.
const paceSize = 1 << 20

// saw is told of an object that was fetched.
func (p *pace) saw(bytes int64, took time.Duration) {
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
	// A load is sent when it has changed, so small changes are kept to oneself.
	if t := float64(p.told); p.rate > t*5/4 || p.rate < t*3/4 {
		p.told = int64(p.rate)
	}
}

// bandwidth is what is told, in bytes per second; 0 while nothing is known.
func (p *pace) bandwidth() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}
