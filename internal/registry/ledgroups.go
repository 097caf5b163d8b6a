package registry

import (
	"maps"
	"slices"
	"sync"

	"github.com/raysys/raysys/internal/groupengine"
)

// LedGroup is a placement group of a shard that this node leads.
type LedGroup struct {
	Key    string
	Record *groupengine.Record // not to be changed
	Waits  bool                // for room
	Since  int64               // when its leader first saw it wait, by Runner.Now: a new leader counts anew
	// Gathers says that nodes gather its room.
	Gathers bool
}

// ledGroups are the groups of all leaders of this node, for questions that do not go through the leaders.
type ledGroups struct {
	mu sync.Mutex // guards by
	by map[string]LedGroup
}

// note enters a group as its leader sees it; nil for one that is gone, or whose leader ends.
func (p *ledGroups) note(key string, r *groupengine.Record, now int64, gathers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r == nil {
		delete(p.by, key)
		return
	}
	g := LedGroup{Key: key, Record: r, Waits: !r.Removing && r.Never == "" && !r.Ready(), Gathers: gathers}
	if was := p.by[key]; g.Waits && was.Waits {
		g.Since = was.Since
	} else if g.Waits {
		g.Since = now
	}
	if p.by == nil {
		p.by = map[string]LedGroup{}
	}
	p.by[key] = g
}

// Groups lists the placement groups of the shards that this node leads, in no order.
func (r *Registry) Groups() []LedGroup {
	p := &r.ledGroups
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.by))
}
