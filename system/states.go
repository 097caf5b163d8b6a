package system

import (
	"fmt"

	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
)

// states implements grainengine.States over the registry: a grain's state lies in the shard of its placement.
type states struct {
	open  func() (*registry, error)
	ns    string
	lease func() error // nil: the process is the lease
}

// Load implements grainengine.States.
func (s *states) Load(id grainengine.ID, names []string, token grainengine.Token, done func([]grainengine.Record, error)) {
	r, err := s.open()
	if err != nil {
		done(nil, err)
		return
	}
	q := &request{op: opLoad, ns: s.ns, id: id, token: token, names: names, from: r.nodes.self()}
	q.answer = func(a answer) {
		if a.err == nil && len(a.records) != len(names) {
			a.err = fmt.Errorf("%w: %d records for %d names", wire.ErrCorrupt, len(a.records), len(names))
		}
		done(a.records, a.err)
	}
	r.ask(q)
}

// Save implements grainengine.States.
func (s *states) Save(id grainengine.ID, name string, token grainengine.Token, etag grainengine.ETag, data []byte, done func(grainengine.ETag, error)) {
	r, err := s.open()
	if err != nil {
		done(grainengine.ETag{}, err)
		return
	}
	q := &request{op: opSave, ns: s.ns, id: id, token: token, name: name, etag: etag, data: data, clear: data == nil, from: r.nodes.self()}
	q.answer = func(a answer) { done(a.etag, a.err) }
	r.ask(q)
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
	return &states{
		ns: c.node.cfg.Namespace, lease: c.suspended,
		open: func() (*registry, error) { return c.reg, nil },
	}
}
