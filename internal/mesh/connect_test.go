package mesh

import (
	"errors"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/runner"
)

// TestConnectKeepsItsOrder: while the functions that waited for a connection are being called, others that ask for it are behind
// them, though the connection is there.
func TestConnectKeepsItsOrder(t *testing.T) {
	r := runner.New(nil)
	defer r.Wait()
	defer r.End(errors.New("the test is over"))
	m := New(Config{Node: "a", Table: core.NewTable(), Runner: r, Log: zap.NewNop()})
	k := core.NodeKey{Node: "b", Incarnation: 1}
	m.peers[k.Node] = &Peer{mesh: m, link: &link.Peer{}, key: k}
	var got []int
	called := make(chan int, 5)
	later := func(n int) func(*Peer, error) {
		return func(p *Peer, err error) {
			if err != nil || p != m.peers[k.Node] {
				t.Error(n, p, err)
			}
			got = append(got, n)
			called <- n
		}
	}
	first := func(p *Peer, err error) {
		later(1)(p, err)
		m.Connect(k, later(3))
		m.Connect(k, later(4))
	}
	m.waiting[k] = &waiting{list: []func(*Peer, error){first, later(2)}}
	arrived(m, k, m.peers[k.Node])
	for range 4 {
		<-called
	}
	m.Connect(k, later(5)) // at once, or behind 4, which may not have returned
	<-called
	if want := []int{1, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("called in the order %v, want %v", got, want)
	}
}
