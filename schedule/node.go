package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/system"
)

// node is the schedules of one node, from its start to its end.
type node struct {
	ready chan struct{} // closed when ctx and log are set
	ctx   context.Context
	log   *slog.Logger
	fire  func(*hand, *spec, firing) // makes a firing, whose outcome hand.ended is told

	mu    sync.Mutex       // guards hands
	hands map[string]*hand // by key: the records that this node works at
}

// nodes has a *node for each *system.Node of the process that runs.
var nodes sync.Map

func init() {
	system.OnStart(start)
	due.Register(due.Schedules{
		Take: take, Describe: func(i due.Item) any { return describe(i) },
		Do: func(verb string, i due.Item) (due.Change, error) { return do(verb, i, nil) },
	})
	grainengine.RegisterDeliverer(messages, deliver)
}

func entry(of *system.Node) *node {
	v, ok := nodes.Load(of)
	if !ok {
		v, _ = nodes.LoadOrStore(of, &node{ready: make(chan struct{}), fire: (*hand).fire, hands: map[string]*hand{}})
	}
	return v.(*node)
}

// start makes the schedules of a node. One without a cluster that keeps its data leads all shards from now on, so that what they have
// fires unasked.
func start(ctx context.Context, of *system.Node) error {
	n := entry(of)
	n.ctx, n.log = ctx, of.Log()
	context.AfterFunc(ctx, func() { nodes.Delete(of) })
	close(n.ready)
	if of.Cluster() != "" || !of.Persistent() {
		return nil
	}
	store, err := due.StoreOf(of)
	if err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	for shard := range store.Shards() {
		store.List(due.Query{Shard: shard, Prefix: due.Prefix}, func(due.Page, error) {})
	}
	return nil
}

// take works at what is due.
func take(of any, list []due.Item) {
	n := entry(of.(*system.Node))
	go func() {
		select {
		case <-n.ready:
		case <-of.(*system.Node).Done():
			return
		}
		store, err := due.StoreOf(of)
		if err != nil {
			return // the node has ended
		}
		for i := range list {
			n.take(store, list[i])
		}
	}()
}

// tell writes notes of a record to the node's log.
func tell(log *slog.Logger, name string, notes []note) {
	for _, n := range notes {
		log.Warn(n.text, append([]any{"schedule", name}, n.args...)...)
	}
}

// nodeOf returns the node of a context, and its store.
func nodeOf(ctx context.Context) (*system.Node, due.Store, error) {
	of := system.NodeOf(ctx)
	if of == nil {
		return nil, nil, fmt.Errorf("schedule: %w", raysys.ErrNoRuntime)
	}
	store, err := due.StoreOf(of)
	if err != nil {
		return nil, nil, fmt.Errorf("schedule: %w", err)
	}
	return of, store, nil
}

// wait waits for what done is called with. The turn gives its CPU back meanwhile.
func wait[T any](ctx context.Context, ask func(done func(T, error))) (T, error) {
	type answer struct {
		v   T
		err error
	}
	c := make(chan answer, 1)
	ask(func(v T, err error) { c <- answer{v, err} })
	if t, _, err := core.TurnOf(ctx); err == nil {
		t.Runtime().Block(t.Base())
		defer t.Runtime().Unblock(t.Base())
	}
	select {
	case a := <-c:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%w: %w", raysys.ErrOutcomeUnknown, context.Cause(ctx))
	}
}
