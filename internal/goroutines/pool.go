package goroutines

import "sync"

// Work is one piece.
type Work interface{ Run() }

// Func makes a function Work.
type Func func()

// Run implements Work.
func (f Func) Run() { f() }

// Pool starts goroutines and keeps up to a bound of those that have become idle.
type Pool struct {
	keep int

	mu     sync.Mutex // guards the rest
	idle   []chan Work
	closed bool
}

// New returns a pool that keeps up to keep idle goroutines. It starts none.
func New(keep int) *Pool { return &Pool{keep: keep} }

// Go runs w on a goroutine of its own, at once: pieces never wait for each other.
func (p *Pool) Go(w Work) {
	p.mu.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mu.Unlock()
		go p.run(w)
		return
	}
	ch := p.idle[n-1] // the one that ran last: its stack is warm
	p.idle = p.idle[:n-1]
	p.mu.Unlock()
	ch <- w // never blocks: an idle goroutine's channel is empty
}

func (p *Pool) run(w Work) {
	var ch chan Work // made by the first idleness: of many that begin together most end after one piece. Closed by Close while this goroutine is idle.
	for {
		w.Run()
		w = nil
		p.mu.Lock()
		if p.closed || len(p.idle) >= p.keep {
			p.mu.Unlock()
			return
		}
		if ch == nil {
			ch = make(chan Work, 1)
		}
		p.idle = append(p.idle, ch)
		p.mu.Unlock()
		var ok bool
		if w, ok = <-ch; !ok {
			return
		}
	}
}

// Close ends the idle goroutines, and each busy one when its piece is done. Go still works.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, ch := range p.idle {
		close(ch)
	}
	p.idle = nil
}
