package mesh

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/runner"
)

// lastWords is a clock with one alarm, which rings by hand.
type lastWords struct{ ring func() }

func (c *lastWords) Now() int64             { return 0 }
func (c *lastWords) SetAlarm(a *core.Alarm) { c.ring = a.Ring }

// TestGoneGetsNoPong: a node that is no member any more, and does not know it, is answered no ping, though the
// connection stays for its last words: it would go on answering from memory.
func TestGoneGetsNoPong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := linktest.NewNetwork(1)
		words := &lastWords{}
		r := runner.New(words)
		m := New(Config{Node: "a", Table: core.NewTable(), Runner: r, Log: zap.NewNop()})
		k := core.NodeKey{Node: "b", Incarnation: 2}
		start := func(id raysys.NodeID, incarnation uint64, up func(*link.Peer)) *link.Link {
			self := link.Identity{Cluster: "test", Node: id, Incarnation: incarnation}
			l, err := link.New(link.Config{
				Self: func() link.Identity { return self }, Transport: net.Transport(id), Listen: string(id), Up: up,
			})
			if err == nil {
				err = l.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		a := start("a", 1, func(p *link.Peer) { m.peers[k.Node] = &Peer{mesh: m, link: p, key: k} })
		b := start("b", 2, nil)
		to, err := b.Connect(t.Context(), "a", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(1100 * time.Millisecond)
		if ago, ok := to.Answered(); !ok || ago > time.Second {
			t.Errorf("b is a member, and its ping of %v ago was answered last (%v)", ago, ok)
		}
		m.Gone(k, true)
		m.Prober().PingBriskly(nil) // which looks at all connections again
		<-time.After(LastWords)
		if ago, ok := to.Answered(); !ok || ago < LastWords {
			t.Errorf("b is gone, and its ping of %v ago was answered (%v)", ago, ok)
		}
		words.ring()
		synctest.Wait()
		if to.Err() == nil {
			t.Error("the connection outlives the last words")
		}
		r.End(errors.New("the test is over"))
		r.Wait()
		if err := errors.Join(a.Close(t.Context()), b.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
