package system

import (
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/registry"
)

// registry returns the node's registry. A node without a cluster opens its store for it.
func (n *Node) registry() (*registry.Registry, error) {
	if n.cluster != nil {
		return n.cluster.Registry, nil
	}
	return n.solo.Open()
}

// states implements graindir.States over the registry: a grain's State lies in the shard of its placement.
type states struct{ n *Node }

// Load implements graindir.States.
func (s states) Load(id graindir.ID, names []string, token graindir.Token, done func([]graindir.Record, error)) {
	r, err := s.n.registry()
	if err != nil {
		done(nil, err)
		return
	}
	r.Load(id, names, token, done)
}

// Save implements graindir.States.
func (s states) Save(id graindir.ID, name string, token graindir.Token, etag graindir.ETag, data []byte, done func(graindir.ETag, error)) {
	r, err := s.n.registry()
	if err != nil {
		done(graindir.ETag{}, err)
		return
	}
	r.Save(id, name, token, etag, data, done)
}

// Restore implements graindir.States.
func (s states) Restore(id graindir.ID, names []string, token graindir.Token, done func(graindir.Restored, error)) {
	r, err := s.n.registry()
	if err != nil {
		done(graindir.Restored{}, err)
		return
	}
	r.Restore(id, names, token, done)
}

// Counter implements graindir.States.
func (s states) Counter(id graindir.ID, token graindir.Token, done func(graindir.Restored, error)) {
	r, err := s.n.registry()
	if err != nil {
		done(graindir.Restored{}, err)
		return
	}
	registry.RestoreCounter(r, id, token, done)
}

// Commit implements graindir.States.
func (s states) Commit(id graindir.ID, token graindir.Token, c graindir.Commit, done func(graindir.ETag, error)) {
	r, err := s.n.registry()
	if err != nil {
		done(graindir.ETag{}, err)
		return
	}
	r.Commit(id, token, c, done)
}

// Page implements graindir.States.
func (s states) Page(q graindir.Query, done func(graindir.Page, error)) {
	r, err := s.n.registry()
	if err != nil {
		done(graindir.Page{}, err)
		return
	}
	registry.StoredPage(r, q, done)
}

// Shards implements graindir.States. A node whose store cannot be opened says so when it is asked for a page.
func (s states) Shards() int {
	r, err := s.n.registry()
	if err != nil {
		return 1
	}
	return registry.Shards(r)
}

// Lease implements graindir.States. In a cluster, reads are valid under the node's lease and the promises of its
// electors, or after a question to the store (rule C20); without one, the process is the lease.
func (s states) Lease() error {
	if s.n.cluster == nil {
		return nil
	}
	_, err := s.n.cluster.Admit()
	return err
}
