package system_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// wiretap is plain TCP that keeps what its node writes on the connections that it dials.
type wiretap struct {
	link.Transport
	mu   sync.Mutex
	said []*bytes.Buffer
}

type tapped struct {
	net.Conn
	tap  *wiretap
	said *bytes.Buffer
}

func (w *wiretap) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := w.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, &bytes.Buffer{})
	return &tapped{conn, w, w.said[len(w.said)-1]}, nil
}

func (c *tapped) Write(b []byte) (int, error) {
	c.tap.mu.Lock()
	c.said.Write(b)
	c.tap.mu.Unlock()
	return c.Conn.Write(b)
}

// recorded is what was said on each connection so far.
func (w *wiretap) recorded() (list [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.said {
		list = append(list, bytes.Clone(b.Bytes()))
	}
	return list
}

// TestStrangerWithoutToken: on a Consul with ACLs, a process without a token that knows names, addresses and incarnations
// becomes no member's double, by what it makes up or by what a member said before, and the secret is not to be had.
func TestStrangerWithoutToken(t *testing.T) {
	const prefix = "raysys/default/"
	server := consultest.Start(t, consulserver.Options{ACL: true})
	token := consultest.NewToken(t, server, consul.Policy(prefix, "raysys-default"))
	open := func(token string) *consul.Store {
		kv, err := consul.Open(consul.Config{Addresses: []string{server.Address()}, Prefix: prefix, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kv.Close() })
		return kv
	}
	tap := &wiretap{Transport: link.TCP(link.TCPConfig{})}
	f := newFleet(t)
	with := func(cfg *system.Config) { cfg.Cluster.Store = open(token) }
	n1, ctx := f.join("node-1", system.Worker, with)
	f.join("node-2", system.Worker, with, func(cfg *system.Config) { standins.Of(cfg.Cluster).Network = tap }) // it dials node-1
	if got, err := where.Go(ctx, 1).Get(ctx); err != nil {
		t.Fatal(got, err)
	}
	st, err := n1.Status(ctx)
	if err != nil || len(st.Nodes) != 2 {
		t.Fatal(st, err)
	}

	// The token of no one reads no secret.
	if _, err := open("00000000-0000-0000-0000-000000000002").Get(ctx, shardlog.LayoutKey); !errors.Is(err, store.ErrDenied) {
		t.Errorf("config without a token: %v", err)
	}
	if p, err := open(token).Get(ctx, shardlog.LayoutKey); err != nil || !strings.Contains(string(p.Value), `"secret"`) {
		t.Errorf("config with the token: %v", err)
	}

	// It knows all but the secret.
	me, other := st.Nodes[1], st.Nodes[0]
	for name, secret := range map[string]string{"no secret": "", "a made-up secret": "0123456789abcdef0123456789abcdef"} {
		l, err := link.New(link.Config{
			Self: func() link.Identity {
				return link.Identity{Cluster: st.Cluster, Node: me.Name, Incarnation: me.Incarnation, Role: "worker"}
			},
			Transport: link.TCP(link.TCPConfig{}), Secret: []byte(secret),
			Unproven: func(context.Context, link.Identity) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = l.Connect(ctx, other.Name, other.Address)
		if !errors.Is(err, link.CodeNotAllowed) || !strings.Contains(err.Error(), "did not prove") {
			t.Errorf("a stranger with %s: %v", name, err)
		}
		_ = l.Close(context.Background())
	}

	// It says again what node-2 said to node-1.
	played := 0
	for _, said := range tap.recorded() {
		if !bytes.Contains(said, []byte("raysys\x01\x06")) { // no proof is in it
			continue
		}
		conn, err := net.Dial("tcp", other.Address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = conn.Write(said)
		answer, err := io.ReadAll(conn)
		_ = conn.Close()
		if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(string(answer), "node node-2 did not prove") {
			t.Errorf("%d bytes played back got %q, %v", len(said), answer, err)
		}
		played++
	}
	if played == 0 {
		t.Error("node-2 dialed nobody, so nothing was played back")
	}

	if st, err := n1.Status(ctx); err != nil || len(st.Nodes) != 2 || st.Nodes[0].State != inspect.NodeActive || st.Nodes[1].State != inspect.NodeActive {
		t.Errorf("the cluster after all that: %+v, %v", st.Nodes, err)
	}
}

// TestProgramsFromBefore: nodes of programs from before the secret, which leave no mark in their record, and nodes that
// prove themselves are one cluster, whoever comes first.
func TestProgramsFromBefore(t *testing.T) {
	former := func(cfg *system.Config) { standins.Of(cfg.Cluster).Unproven = true }
	now := func(*system.Config) {}
	for _, first := range []bool{true, false} {
		changes := []func(*system.Config){former, now}
		if first {
			changes = []func(*system.Config){now, former}
		}
		f := newFleet(t)
		f.join("w1", system.Worker, changes[0])
		f.join("w2", system.Worker, changes[1])
		_, ctx := f.join("d", system.Driver, changes[0])
		seen := map[string]bool{}
		for _, w := range []raysys.NodeID{"w1", "w2"} {
			got, err := where.With(raysys.OnNode(w)).Go(ctx, 1).Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			seen[got] = true
		}
		if len(seen) != 2 {
			t.Errorf("tasks ran on %v", seen)
		}
		for node, proves := range map[string]bool{"w1": first, "w2": !first} {
			p, err := f.kv.Get(ctx, shardlog.NodesPrefix+node)
			if err != nil || strings.Contains(string(p.Value), `"proves":true`) != proves {
				t.Errorf("record of %s: %s, %v", node, p.Value, err)
			}
		}
	}
}
