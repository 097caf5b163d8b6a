package system

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// elsewhere is a cluster whose one shard is led by another node, which does as it is told.
type elsewhere struct {
	here  *Node
	asked func(*request)
	away  atomic.Bool // the store is, and the lease out
	dead  sync.Map    // incarnations
	hosts atomic.Pointer[[]placement.Node]
	looks atomic.Uint64
}

func (e *elsewhere) self() core.NodeKey { return core.NodeKey{Node: e.here.cfg.Name} }

func (e *elsewhere) leader(int) (core.NodeKey, bool) {
	return core.NodeKey{Node: "leader", Incarnation: 2}, true
}
func (e *elsewhere) now() int64                                         { return e.here.Now() }
func (e *elsewhere) later(f func())                                     { runner.New(e.here).Later(f) }
func (e *elsewhere) alone() bool                                        { return false }
func (e *elsewhere) strategies() map[raysys.Strategy]placement.Strategy { return nil }

func (e *elsewhere) nodes() ([]placement.Node, uint64) {
	if h := e.hosts.Load(); h != nil {
		return slices.Clone(*h), e.looks.Add(1) // as if something had changed
	}
	return nil, 0
}

func (e *elsewhere) suspended() error {
	if e.away.Load() {
		return raysys.ErrSuspended
	}
	return nil
}

func (e *elsewhere) alive(k core.NodeKey) bool {
	_, dead := e.dead.Load(k)
	return !dead
}

func (e *elsewhere) send(_ core.NodeKey, _ int, q *request) { e.asked(q) }

// newElsewhere returns the directory of a node that asks that leader.
func newElsewhere(t *testing.T, asked func(*request)) (*elsewhere, *directory) {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	conf, err := store.OpenLayout(t.Context(), kv, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(Config{Table: raysys.NewTable(), Cluster: &ClusterConfig{Store: kv}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	e := &elsewhere{here: n, asked: asked}
	n.others.reg = newRegistry(e, n.actors, conf)
	return e, &directory{c: n.others}
}

// TestRequestsHaveRoom: however many changes come at the same time, a leader takes each request that they make.
func TestRequestsHaveRoom(t *testing.T) {
	_, d := newElsewhere(t, func(q *request) {
		r := wire.NewReader(q.append(nil))
		if _, err := readRequest(&r); err != nil {
			t.Error(err)
		}
		q.answer(answer{objects: make([]objectAnswer, len(q.changes))})
	})
	const many, each = 16, 2000
	var made, begun sync.WaitGroup
	made.Add(many * each)
	for i := range many {
		begun.Go(func() {
			for j := range each {
				d.change(objectChange{kind: changeForget, key: fmt.Sprint("n/", i, " ", j)}, func(_ objectAnswer, err error) {
					if err != nil {
						t.Error(err)
					}
					made.Done()
				})
			}
		})
	}
	begun.Wait()
	made.Wait()
}
