package system

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
)

// ObjectConfig says what a node's object store may use. The zero value is sane.
type ObjectConfig struct {
	// Memory that values above 64 KiB may take, in bytes. 0: 30 % of what the process may have.
	Memory int64
	// Spill is the directory that values go to when memory is short. Empty: one below os.TempDir, removed by Close.
	Spill string
	// Disk bounds the files there, in bytes. 0: what the file system has, less a reserve.
	Disk int64
	// NoSharing keeps processes of one host from mapping each other's objects: they are sent instead.
	NoSharing bool
}

// openObjects opens the node's objects.
func (n *Node) openObjects() (*objects.Objects, error) {
	cfg := n.cfg.Objects
	oc := objects.Config{
		Node: n.cfg.Name, Namespace: n.cfg.Namespace, Job: n.job, Clock: (*nodeRuntime)(n), Log: n.log, Fetched: n.pace.saw, Records: n.registry,
		Store: objectstore.Config{Budget: cfg.Memory, Dir: cfg.Spill, Disk: cfg.Disk, Cluster: "local"},
	}
	if c := n.cluster; c != nil {
		oc.Store.Cluster, oc.Store.Incarnation = c.cfg.Name, uint64(time.Now().UnixNano()) // the node has no incarnation in the cluster yet
		oc.Cluster = &objects.Cluster{
			Mesh: c.mesh, Refs: c.refs, Runner: c.runner, Directory: c.directory, View: func() *member.View { return c.member.View() },
		}
		if !cfg.NoSharing {
			oc.Cluster.Host = transfer.HostID()
		}
	}
	o, err := objects.Open(oc)
	if err != nil {
		return nil, err
	}
	n.objects, n.job.Objects = o, o // no work has been submitted yet
	return o, nil
}

// Objects returns the figures of the node's object store.
func (n *Node) Objects() ObjectStats {
	if n.objects == nil {
		return ObjectStats{}
	}
	return ObjectStats(n.objects.Stats())
}

// retainer implements grainengine.Retainer by the node's objects, which Start makes after the grain engine.
type retainer struct{ n *Node }

// Retain implements grainengine.Retainer.
func (r retainer) Retain(id grainengine.ID, name string, refs []*core.Future, done func([]byte, []raysys.TaskID, error)) {
	r.n.objects.Retain(id, name, refs, done)
}

// Restore implements grainengine.Retainer.
func (r retainer) Restore(written []byte) ([]*core.Future, error) {
	return r.n.objects.Restore(written)
}
