package registry

import (
	"sync"

	"github.com/raysys/raysys/internal/groupengine"
)

// PendingGroup is a placement group that waits for room.
type PendingGroup struct {
	Key    string
	Record *groupengine.Record // not to be changed
	Since  int64               // when its leader first saw it wait, by Runner.Now: a new leader counts anew
	// Gathers says that nodes gather its room.
	Gathers bool
}

// pendingGroups are the groups that wait of all leaders of this node, for questions that do not go through the leaders.
type pendingGroups struct {
	mu sync.Mutex // guards by
	by map[string]PendingGroup
}

// note enters a group as its leader sees it; nil for one that is gone, or whose leader ends.
func (p *pendingGroups) note(key string, r *groupengine.Record, now int64, gathers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r == nil || r.Removing || r.Never != "" || r.Ready() {
		delete(p.by, key)
		return
	}
	if was, ok := p.by[key]; ok {
		now = was.Since
	}
	if p.by == nil {
		p.by = map[string]PendingGroup{}
	}
	p.by[key] = PendingGroup{key, r, now, gathers}
}

// PendingGroups lists the groups that wait for room, of the shards that this node leads.
func (r *Registry) PendingGroups() (list []PendingGroup) {
	p := &r.pendingGroups
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.by {
		list = append(list, g)
	}
	return list
}
