package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/placing"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store/embedded"
)

// SoloConfig says what a Solo is given of its node.
type SoloConfig struct {
	Name      raysys.NodeID
	Namespace string
	Data      string // the directory of the store; "": it is in memory
	Resources raysys.Resources
	Devices   []raysys.Device
	Clock     refs.Clock
	Actors    *actor.ActorSystem
	Log       *zap.Logger
	Take      func([]due.Item) error // works at what is due
}

// Solo stands in for a cluster: a node without one keeps what grains.State holds in shards of its own, on the embedded
// store. The store is opened when the first grain with State is activated. With a data directory Start opens it, so
// that Start fails when the directory cannot be used.
type Solo struct {
	Runner *runner.Runner
	Run    uint64 // the node's incarnation: bundles and replies of an earlier process are nobody's
	cfg    SoloConfig
	tasks  *taskengine.Engine // from Engines on
	groups *placing.Groups    // from Engines on

	mu      sync.Mutex // guards the rest
	kv      *embedded.Store
	reg     *registry.Registry
	session string
	opening map[int]bool // shards that are led, or will be in a moment
	ended   bool
}

// soloTTL is longer than any process lives: the session of a store that one process owns need not be renewed.
const soloTTL = 100 * 365 * 24 * time.Hour

// NewSolo makes the stand-in of a node.
func NewSolo(c SoloConfig) *Solo {
	return &Solo{cfg: c, Runner: runner.New(c.Clock), Run: 1 + rand.Uint64()>>1, opening: map[int]bool{}}
}

// Engines gives what is made after it.
func (s *Solo) Engines(tasks *taskengine.Engine, groups *placing.Groups) {
	s.tasks, s.groups = tasks, groups
}

// Registry returns that of the store; nil while the store is not open.
func (s *Solo) Registry() *registry.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reg
}

// Alive reports whether k is this node: in this process, or of any.
func (s *Solo) Alive(k core.NodeKey) bool { return k.Incarnation == 0 || k.Incarnation == s.Run }

// Open opens the store, unless it is open, and returns its registry.
func (s *Solo) Open() (*registry.Registry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, raysys.ErrClosed
	case s.reg != nil:
		return s.reg, nil
	}
	kv, err := embedded.Open(embedded.Config{Dir: s.cfg.Data})
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	conf, err := shardlog.OpenLayout(s.Runner.Context(), kv, "", 0)
	if err == nil {
		// The process is the lease: no other process can open the store while it lives.
		s.session, err = kv.NewSession(s.Runner.Context(), string(s.cfg.Name), soloTTL)
	}
	if err != nil {
		_ = kv.Close()
		return nil, fmt.Errorf("open state: %w", err)
	}
	s.kv = kv
	s.reg = registry.New(registry.Config{
		Members: soloMembers{s}, Actors: s.cfg.Actors, Runner: s.Runner, Layout: conf, Namespace: s.cfg.Namespace, Alone: true,
		AskBundles: s.groups.Ask,
		Fire: func(_ core.NodeKey, list []due.Item, refused func([]due.Item, error)) {
			if err := s.cfg.Take(list); err != nil {
				refused(list, err)
			}
		},
	})
	return s.reg, nil
}

func (s *Solo) lead(n int) {
	sh, err := shardlog.Lead(s.Runner.Context(), shardlog.LeadConfig{KV: s.kv, Shard: n, Session: s.session, Node: string(s.cfg.Name)})
	if err != nil {
		s.cfg.Log.Error("cannot open a shard of the state", zap.Int("shard", n), zap.Error(err))
		s.reg.Fail(n, err)
		s.mu.Lock()
		delete(s.opening, n)
		s.mu.Unlock()
		return
	}
	s.reg.Lead(n, sh)
}

// LeadAll begins to lead all shards of a store that is in files: grains there may have messages to send.
func (s *Solo) LeadAll() {
	if reg := s.Registry(); reg != nil && s.cfg.Data != "" {
		for n := range reg.Layout().Shards {
			soloMembers{s}.Leader(n)
		}
	}
}

// Close ends the store: every write that was acknowledged is in it.
func (s *Solo) Close() error {
	s.mu.Lock()
	s.ended = true
	kv, reg := s.kv, s.reg
	s.mu.Unlock()
	if kv == nil {
		s.Runner.End(raysys.ErrClosed)
		s.Runner.Wait()
		return nil
	}
	reg.Close(raysys.ErrClosed)
	ctx := context.WithoutCancel(s.Runner.Context())
	s.release(ctx, reg)
	s.Runner.End(raysys.ErrClosed)
	s.Runner.Wait()
	s.release(ctx, reg) // shards that it was about to lead
	return kv.Close()
}

func (s *Solo) release(ctx context.Context, reg *registry.Registry) {
	for n, sh := range reg.Led() {
		_ = sh.Release(ctx)
		reg.StepDown(n, sh)
	}
}

// soloMembers implements registry.Members.
type soloMembers struct{ *Solo }

// Leader is this node, which begins to lead the shard when it is first asked for.
func (s soloMembers) Leader(n int) (core.NodeKey, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opening[n] && !s.ended {
		s.opening[n] = true
		s.Runner.Run(func() { s.lead(n) })
	}
	return s.Self(), true
}

func (s soloMembers) Self() core.NodeKey { return core.NodeKey{Node: s.cfg.Name} }

func (s soloMembers) Suspended() error { return nil }
func (s soloMembers) Promised() bool   { return true }

// Nodes is this node as it is now.
func (s soloMembers) Nodes() ([]placement.Node, registry.Moment) {
	cfg := &s.cfg
	n := placement.Node{
		ID: cfg.Name, Incarnation: s.Run, Namespace: cfg.Namespace, Total: cfg.Resources, Devices: nodedevices.Placement(cfg.Devices), Worker: true,
	}
	s.Reported(&n)
	return []placement.Node{n}, registry.Moment{}
}

// Since has the node looked at each time: it sends no report.
func (s soloMembers) Since(_ registry.Moment, reported func(core.NodeKey)) registry.Moment {
	reported(core.NodeKey{Node: s.cfg.Name, Incarnation: s.Run})
	return registry.Moment{}
}

// Reported implements registry.Members.
func (s soloMembers) Reported(n *placement.Node) {
	l := s.tasks.Load()
	placing.SetFree(n, l.Rest)
	n.Free.CPU = l.Free
}

// Connect is not called: there is no other node.
func (s soloMembers) Connect(_ core.NodeKey, done func(*mesh.Questions, error)) {
	done(nil, raysys.ErrUnreachable)
}
