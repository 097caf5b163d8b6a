package system

import (
	"path/filepath"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/transfer"
)

// ObjectConfig says what a node's object store may use. The zero value is sane.
type ObjectConfig struct {
	// Memory that values above 64 KiB may take, in bytes. 0: 30 % of what the process may have.
	Memory int64
	// Spill is the directory that values go to when memory is short, and that has the files of raysys.OnDisk. Empty: the
	// folder objects in Config.Data; without that one below os.TempDir, removed by Close, and no raysys.OnDisk.
	Spill string
	// Disk bounds the files there, in bytes. 0: what the file system has, less a reserve.
	Disk int64
	// NoSharing keeps processes of one host from mapping each other's objects: they are sent instead.
	NoSharing bool
}

// openObjects opens the node's objects. With a cluster the layout of its store is known, and the directory is made.
func (n *Node) openObjects() (*objects.Objects, error) {
	cfg := n.cfg.Objects
	oc := objects.Config{
		Node: n.cfg.Name, Namespace: n.cfg.Namespace, Job: n.job, Clock: (*nodeRuntime)(n), Log: n.log, Fetched: n.pace.Saw, Records: n.registry,
		Store: objectstore.Config{Budget: cfg.Memory, Dir: cfg.Spill, Disk: cfg.Disk, Cluster: "local"},
	}
	var err error
	if oc.Files, err = objectFiles(n, &oc.Store); err != nil {
		return nil, err
	}
	if c := n.cluster; c != nil {
		oc.Store.FS = n.cfg.Cluster.parts.Files
		oc.Store.Cluster, oc.Store.Incarnation = n.cfg.Cluster.Name, uint64(time.Now().UnixNano()) // the node has no incarnation in the cluster yet
		oc.Cluster = &objects.Cluster{
			Mesh: c.Mesh, Refs: c.Refs, Runner: c.Runner, Directory: c.Directory, View: func() *member.View { return c.Member.View() },
			Unused: func(name string, then func()) {
				if c.Lineage != nil {
					c.Lineage.Unused(name, then)
				}
			},
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

// objectFiles says what a node has for raysys.OnDisk. Its files are found again by the name of the node in a cluster,
// and by the id of its store without one.
func objectFiles(n *Node, store *objectstore.Config) (objects.Files, error) {
	if c := n.cluster; c != nil {
		f := objects.Files{StoreID: c.Registry.Layout().ID, Directory: c.Directory}
		switch {
		case store.Dir == "":
			f.Missing = "it has no directory that stays: give Config.Objects.Spill, or RAYSYS_SPILL"
		case n.drawn:
			f.Missing = "it has another name after each start: give Config.Name, or RAYSYS_NAME"
		}
		return f, nil
	}
	if n.cfg.Data == "" {
		return objects.Files{Missing: "names are kept in memory: give Config.Data, or RAYSYS_DATA"}, nil
	}
	reg, err := n.solo.Open()
	if err != nil {
		return objects.Files{}, err
	}
	if store.Dir == "" {
		store.Dir = filepath.Join(n.cfg.Data, "objects")
	}
	store.Node = raysys.NodeID(reg.Layout().ID)
	return objects.Files{StoreID: reg.Layout().ID, Directory: registry.NewDirectory(reg)}, nil
}

// Objects returns the figures of the node's object store.
func (n *Node) Objects() inspect.ObjectStats {
	if n.objects == nil {
		return inspect.ObjectStats{}
	}
	return inspect.ObjectStats(n.objects.Stats())
}

// retainer implements graindir.Retainer by the node's objects, which Start makes after the grain engine.
type retainer struct{ n *Node }

// Retain implements graindir.Retainer.
func (r retainer) Retain(id graindir.ID, name string, refs []*core.Future, done func([]byte, []raysys.TaskID, error)) {
	r.n.objects.Retain(id, name, refs, done)
}

// Restore implements graindir.Retainer.
func (r retainer) Restore(written []byte) ([]*core.Future, error) {
	return r.n.objects.Restore(written)
}

// KeepState implements graindir.Retainer.
func (r retainer) KeepState(id graindir.ID, name string, record []byte, done func([]byte, raysys.TaskID, error)) {
	r.n.objects.KeepState(id, name, record, done)
}

// KeptState implements graindir.Retainer.
func (r retainer) KeptState(id graindir.ID, name string, object raysys.TaskID, err error) {
	r.n.objects.KeptState(id, name, object, err)
}

// FetchState implements graindir.Retainer.
func (r retainer) FetchState(id graindir.ID, name string, written []byte, done func([]byte, error)) {
	r.n.objects.FetchState(id, name, written, done)
}
