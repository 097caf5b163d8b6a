package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/placement"
)

// manyNodes is a cluster of n workers with a GPU on every hundredth. Of Members it has what a decision asks for.
type manyNodes struct {
	Members
	list []placement.Node
	now  Moment
	news []core.NodeKey
}

func newManyNodes(n int) *manyNodes {
	m := &manyNodes{}
	for i := range n {
		own := placement.Node{
			ID: raysys.NodeID(fmt.Sprintf("node-%d", i)), Incarnation: uint64(i + 1), Namespace: "test", Worker: true,
			Total: raysys.Resources{CPU: 8}, Free: raysys.Resources{CPU: 8},
		}
		if i%100 == 7 {
			own.Total.GPU, own.Free.GPU = 2, 2
		}
		m.list = append(m.list, own)
	}
	return m
}

func (m *manyNodes) Self() core.NodeKey { return core.NodeKey{Node: "node-1", Incarnation: 2} }

// Nodes does what a cluster's does: it makes the list anew.
func (m *manyNodes) Nodes() ([]placement.Node, Moment) {
	list := make([]placement.Node, 0, len(m.list))
	return append(list, m.list...), m.now
}

func (m *manyNodes) Since(_ Moment, reported func(core.NodeKey)) Moment {
	for _, k := range m.news {
		reported(k)
	}
	m.news = m.news[:0]
	return m.now
}

func (m *manyNodes) Reported(n *placement.Node) {
	own := &m.list[n.Incarnation-1]
	n.Free, n.Devices = own.Free, slices.Clone(own.Devices)
}

// report has node k report.
func (m *manyNodes) report(k int) {
	m.now.Reports++
	m.list[k].Free.CPU = float64(k % 9)
	m.news = append(m.news, core.NodeKey{Node: m.list[k].ID, Incarnation: m.list[k].Incarnation})
}

// BenchmarkDecision is one decision of a shard's leader, after a report of a node.
func BenchmarkDecision(b *testing.B) {
	kinds := map[string]raysys.Resources{"plain": {}, "gpu": {GPU: 0.001}, "none": {GPU: 3}}
	for _, n := range []int{100, 10_000} {
		for name, needs := range kinds {
			b.Run(fmt.Sprintf("grain/%s/nodes=%d", name, n), func(b *testing.B) {
				m := newManyNodes(n)
				l := benchLeader(b, m)
				o := &locate{grain: grain{ns: "test", id: graindir.ID{Kind: "counter", Key: "alice"}}, needs: needs}
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					m.report(k % n)
					to, err := o.choose(l, core.NodeKey{})
					if (err == nil) != (name != "none") {
						b.Fatal(err)
					}
					if err == nil {
						l.counts[to]++
						l.uncount(to)
					}
				}
			})
		}
		for _, s := range placement.GroupStrategies {
			b.Run(fmt.Sprintf("group/%s/nodes=%d", s, n), func(b *testing.B) {
				m := newManyNodes(n)
				l := benchLeader(b, m)
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					m.report(k % n)
					bundles := []raysys.Resources{{CPU: 0.001}, {CPU: 0.001}, {CPU: 0.001}, {CPU: 0.001}}
					if _, err := (groupWorld{l}).Assign(placement.GroupRequest{Strategy: s, Namespace: "test", Bundles: bundles}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func benchLeader(b *testing.B, m Members) *leader {
	w := wheel.New()
	r := runner.New(wheelClock{Wheel: w})
	b.Cleanup(func() {
		r.End(raysys.ErrClosed)
		r.Wait()
		w.Stop()
	})
	return &leader{reg: New(Config{Members: m, Runner: r, Namespace: "test"}), shard: &shardlog.Shard{}, counts: map[core.NodeKey]int{}}
}
