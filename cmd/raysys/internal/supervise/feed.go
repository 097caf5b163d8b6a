package supervise

import "sync"

// Feed is what a program hears from its supervisor, on a pipe that the two have: the line that was set last when it starts,
// and each later one. A program that does not read misses lines in between, and holds up nothing.
type Feed struct {
	variable string

	mu      sync.Mutex // guards what follows
	line    []byte
	changed chan struct{} // closed by the next Set
}

// NewFeed returns a Feed whose pipe the program finds by this variable: the number of its descriptor, a colon and its inode.
func NewFeed(variable string) *Feed { return &Feed{variable: variable, changed: make(chan struct{})} }

// Set makes line, with its end of line, the latest.
func (f *Feed) Set(line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = line
	close(f.changed)
	f.changed = make(chan struct{})
}

// latest returns the line, and a channel that is closed when there is a later one.
func (f *Feed) latest() ([]byte, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.line, f.changed
}
