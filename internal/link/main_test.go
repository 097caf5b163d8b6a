package link_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Kinds that the tests use.
const (
	kindNote wire.Kind = 40 + iota // kept
	kindEcho                       // sent back as a reply
	kindBoom                       // panics
	kindList                       // of items
)

// end is one node in a test: it keeps what it is told.
type end struct {
	*link.Link
	t         testing.TB
	node      raysys.NodeID
	transport link.Transport

	mu    sync.Mutex // guards the rest
	cond  *sync.Cond
	log   []string
	peers []*link.Peer
}

// open starts a node, which is closed with the test.
func open(t testing.TB, node raysys.NodeID, transport link.Transport, change ...func(*link.Config)) *end {
	t.Helper()
	e := &end{t: t, node: node, transport: transport}
	e.cond = sync.NewCond(&e.mu)
	cfg := link.Config{
		Self: func() link.Identity {
			return link.Identity{Cluster: "test", Node: node, Incarnation: 1, Functions: []link.Function{{Kind: "task", Name: "square", Fingerprint: 7}}}
		},
		Transport: transport,
		Listen:    "127.0.0.1:0",
		Handlers: map[wire.Kind]link.Handler{
			kindNote: func(p *link.Peer, c wire.Class, b []byte) {
				text := string(b)
				if len(text) > 40 {
					text = fmt.Sprintf("%d bytes", len(text))
				}
				e.note("%s %s: %s", p.Node(), c, text)
			},
			kindEcho: func(p *link.Peer, _ wire.Class, b []byte) { p.Send(wire.Replies, kindNote, b) },
			kindBoom: func(*link.Peer, wire.Class, []byte) { panic("boom") },
		},
		Up: func(p *link.Peer) {
			e.mu.Lock()
			e.peers = append(e.peers, p)
			e.mu.Unlock()
			e.note("up %s", p)
		},
		Down:     func(p *link.Peer, err error) { e.note("down %s: %v", p, err) },
		Rejected: func(_ string, who link.Identity, err error) { e.note("rejected %s: %v", who.Node, err) },
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if e.Link, err = link.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	return e
}

func (e *end) note(format string, args ...any) {
	e.mu.Lock()
	e.log = append(e.log, fmt.Sprintf(format, args...))
	e.mu.Unlock()
	e.cond.Broadcast()
}

// expect waits until a line of the log begins with each of the words.
func (e *end) expect(words ...string) {
	e.t.Helper()
	late := false
	timer := time.AfterFunc(10*time.Second, func() {
		e.mu.Lock()
		late = true
		e.mu.Unlock()
		e.cond.Broadcast()
	})
	defer timer.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, word := range words {
		for !slices.ContainsFunc(e.log, func(s string) bool { return strings.HasPrefix(s, word) }) {
			if late {
				e.t.Fatalf("%s waits for %q, its log is:\n%s", e.node, word, strings.Join(e.log, "\n"))
			}
			e.cond.Wait()
		}
	}
}

func (e *end) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.log)
}

func (e *end) count(word string) (n int) {
	for _, s := range e.lines() {
		if strings.HasPrefix(s, word) {
			n++
		}
	}
	return n
}

func (e *end) connect(to *end) *link.Peer {
	e.t.Helper()
	p, err := e.Connect(e.t.Context(), to.node, to.Addr())
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

// self makes a node say something else of itself.
func self(id link.Identity) func(*link.Config) {
	return func(c *link.Config) { c.Self = func() link.Identity { return id } }
}

// each runs a test over TCP and in memory.
func each(t *testing.T, f func(t *testing.T, transport func(raysys.NodeID) link.Transport)) {
	t.Run("tcp", func(t *testing.T) {
		f(t, func(raysys.NodeID) link.Transport { return link.TCP(link.TCPConfig{}) })
	})
	t.Run("memory", func(t *testing.T) { f(t, linktest.NewNetwork(1).Transport) })
}
