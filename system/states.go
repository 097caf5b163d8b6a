package system

import (
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/registry"
)

// states implements grainengine.States over the registry: a grain's state lies in the shard of its placement.
type states struct {
	open  func() (*registry.Registry, error)
	lease func() error // nil: the process is the lease
}

// Load implements grainengine.States.
func (s *states) Load(id grainengine.ID, names []string, token grainengine.Token, done func([]grainengine.Record, error)) {
	r, err := s.open()
	if err != nil {
		done(nil, err)
		return
	}
	r.Load(id, names, token, done)
}

// Save implements grainengine.States.
func (s *states) Save(id grainengine.ID, name string, token grainengine.Token, etag grainengine.ETag, data []byte, done func(grainengine.ETag, error)) {
	r, err := s.open()
	if err != nil {
		done(grainengine.ETag{}, err)
		return
	}
	r.Save(id, name, token, etag, data, done)
}

// Lease implements grainengine.States.
func (s *states) Lease() error {
	if s.lease == nil {
		return nil
	}
	return s.lease()
}

// states of a node in a cluster: reads may rest on its lease (rule C20).
func (c *cluster) states() *states {
	return &states{lease: c.suspended, open: func() (*registry.Registry, error) { return c.reg, nil }}
}
