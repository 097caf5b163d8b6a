package objects

import (
	"context"
	"errors"
	"sync"
	"time"
	"weak"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/transfer"
)

// Objects joins the node's object store to its futures and to the other nodes. It implements core.Objects and
// core.Names.
type Objects struct {
	name      raysys.NodeID
	namespace string
	job       *core.Job
	clock     refs.Clock
	log       *zap.Logger
	onFetched func(size int64, took time.Duration)
	records   func() (*registry.Registry, error)
	store     *objectstore.Store
	ctx       context.Context // ends with the node
	cancel    context.CancelFunc

	// These are nil without a cluster.
	mesh   *mesh.Mesh
	refs   *refs.References
	runner *runner.Runner
	dir    *registry.Directory
	view   func() *member.View
	engine *transfer.Engine
	unused func(name string, then func())

	mu     sync.Mutex                                  // guards the rest
	needs  map[raysys.TaskID]need                      // objects of other nodes that references here stand for
	live   map[raysys.TaskID]weak.Pointer[core.Future] // the futures whose values are objects of this node
	listed map[raysys.TaskID]bool                      // those for which the directory names this node
	deaths map[core.NodeKey]time.Time                  // when an object of a dead node was first missed
	kept   keptObjects

	recopying recopying

	files  diskFiles
	states stateObjects
	leaves leaving
}

// need is why this node wants an object of another.
type need struct {
	count int          // references here that stand for it
	owner core.NodeKey // as the last of them has it
	size  int64        // about
}

// Open opens the node's store. It writes nothing before there is something to spill.
func Open(cfg Config) (*Objects, error) {
	o := &Objects{
		name: cfg.Node, namespace: cfg.Namespace, job: cfg.Job, clock: cfg.Clock, log: cfg.Log, onFetched: cfg.Fetched, records: cfg.Records,
		needs: map[raysys.TaskID]need{},
	}
	o.recopying.o, o.states.o, o.leaves.o = o, o, o
	o.files = diskFiles{o: o, Files: cfg.Files, recovered: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	trouble := func(what string, err error) { o.log.Warn("object store: "+what, zap.Error(err)) }
	sc := cfg.Store
	sc.Pressure = o.pressure
	if sc.Node == "" {
		sc.Node = cfg.Node
	}
	sc.Hooks = objectstore.Hooks{
		Dropped: func(v objectstore.Version) { o.withdraw(v.ID) },
		Lost:    o.files.lostHere,
		Trouble: trouble,
	}
	var err error
	if o.store, err = objectstore.Open(sc); err != nil {
		return nil, err
	}
	if c := cfg.Cluster; c != nil {
		o.mesh, o.refs, o.runner, o.dir, o.view = c.Mesh, c.Refs, c.Runner, c.Directory, c.View
		o.unused = c.Unused
		if o.engine, err = o.newEngine(c.Host); err != nil {
			return nil, errors.Join(err, o.store.Close())
		}
	}
	if sc.Dir != "" {
		// Spill files of an earlier incarnation are of no use without the futures that stood for them. Files of named
		// objects stay until Recover.
		o.files.sweepFiles()
	}
	return o, nil
}

func (o *Objects) newEngine(host string) (*transfer.Engine, error) {
	return transfer.New(transfer.Config{
		Self:  o.self,
		Store: o.store, Link: connector{o.mesh}, Host: host,
		Hooks: transfer.Hooks{
			Struck: func(from core.NodeKey, id raysys.TaskID, why error) {
				o.log.Debug("object is not pulled from a node any more", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
			},
			NotShared: func(from core.NodeKey, id raysys.TaskID, why error) {
				o.log.Debug("object is pulled, not shared", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
			},
		},
	})
}

// Stop ends what waits in it.
func (o *Objects) Stop() { o.cancel() }

// Close ends transfers and the store. Values that the program still holds stay.
func (o *Objects) Close() error {
	o.cancel()
	if o.engine != nil {
		o.engine.Close()
	}
	return o.store.Close()
}

func (o *Objects) self() core.NodeKey {
	if o.mesh != nil {
		return o.mesh.Self()
	}
	return core.NodeKey{Node: o.name}
}

// Stats says what the store holds.
func (o *Objects) Stats() objectstore.Stats { return o.store.Stats() }

// Transfers counts what came and went.
func (o *Objects) Transfers() transfer.Stats { return o.engine.Stats() }
