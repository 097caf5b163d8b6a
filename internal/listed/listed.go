package listed

import "sync"

var lists struct {
	mu sync.Mutex
	m  map[string]func(node any) any
}

// Register has f answer for the list called name: node is the *system.Node that is asked, and the answer is sent as JSON.
func Register(name string, f func(node any) any) {
	lists.mu.Lock()
	defer lists.mu.Unlock()
	if lists.m == nil {
		lists.m = map[string]func(any) any{}
	}
	lists.m[name] = f
}

// Of returns what answers for a list, nil where the program has no such thing.
func Of(name string) func(node any) any {
	lists.mu.Lock()
	defer lists.mu.Unlock()
	return lists.m[name]
}
