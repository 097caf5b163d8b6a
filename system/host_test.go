package system_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/system"
)

func (b *bubble) config(name raysys.NodeID, advertise string) system.Config {
	return system.Config{Name: name, Table: table, Namespace: "test", Resources: raysys.Resources{CPU: 1}, Cluster: over(b.net.Transport(name), system.ClusterConfig{
		Store: b.kv, Role: system.Worker, Advertise: advertise,
	})}
}

func (b *bubble) status(n *system.Node) map[raysys.NodeID]inspect.NodeStatus {
	b.t.Helper()
	st, err := n.Status(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[raysys.NodeID]inspect.NodeStatus{}
	for _, n := range st.Nodes {
		all[n.Name] = n
	}
	for _, s := range st.Shards {
		if s.Node == "x" {
			b.t.Fatalf("shard %d is led by x, which nobody can talk to", s.Shard)
		}
	}
	return all
}

// TestEvictedWorkerWaits: a worker that no other node can reach comes back ever more seldom, leads nothing, and says why.
func TestEvictedWorkerWaits(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		a, end := b.start(b.config("a", ""))
		defer end()
		b.net.Cut("a", "x")
		core, logs := observer.New(zapcore.WarnLevel)
		cfg := b.config("x", "")
		cfg.Logger = zap.New(core)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- system.Run(ctx, cfg, nil) }()
		defer func() {
			cancel()
			<-ended
		}()
		var joined []time.Duration
		last, shown, begin := uint64(0), false, time.Now()
		for time.Since(begin) < 400*time.Second {
			<-time.After(500 * time.Millisecond)
			if p, err := b.kv.Get(t.Context(), shardlog.NodesPrefix+"x"); err == nil && p.Create != last {
				last = p.Create
				joined = append(joined, time.Since(begin))
			}
			if x, ok := b.status(a)["x"]; ok {
				if x.State != inspect.NodeJoining {
					t.Fatalf("status shows %+v of a worker that nobody can talk to", x)
				}
				shown = shown || x.Error != ""
			}
		}
		if len(joined) < 3 || len(joined) > 14 || joined[len(joined)-1]-joined[len(joined)-2] < 30*time.Second {
			t.Errorf("in 40 leases it joined at %v: it was to wait longer each time", joined)
		}
		if !shown {
			t.Error("status never said why it is no host")
		}
		if logs.FilterMessageSnippet("no host yet").Len() == 0 {
			t.Error("its log never said why it is no host")
		}
		if err := a.Err(); err != nil {
			t.Errorf("the host ended: %v", err)
		}
	})
}

// TestOneWayIsEnough: a worker that others cannot dial becomes a host by dialling them, and dials those that come
// later.
func TestOneWayIsEnough(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		nodes := map[raysys.NodeID]*system.Node{}
		for _, name := range []raysys.NodeID{"a", "shut", "c"} {
			advertise := ""
			if name == "shut" {
				advertise = "nowhere:1"
			}
			n, end := b.start(b.config(name, advertise))
			defer end()
			nodes[name] = n
			<-time.After(10 * time.Second)
		}
		<-time.After(time.Minute)
		for name, n := range nodes {
			if err := n.Err(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for other, s := range b.status(n) {
				if s.State != inspect.NodeActive || len(s.Connected) != 2 || slices.ContainsFunc(s.Connected, func(p inspect.PeerStatus) bool { return p.Relayed }) {
					t.Errorf("as %s sees it, %s is %s (%s) with connections %v", name, other, s.State, s.Error, s.Connected)
				}
			}
		}
	})
}

// TestHostsAreDialledAgain: a worker that only some of the hosts could talk to at first becomes a host, in the same life, when the
// others can be reached, though nobody can dial it.
func TestHostsAreDialledAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		var opens []func()
		for _, name := range []raysys.NodeID{"a", "b", "c"} {
			_, end := b.start(b.config(name, ""))
			defer end()
		}
		<-time.After(30 * time.Second)
		for _, name := range []string{"a", "b"} {
			p, err := b.kv.Get(t.Context(), shardlog.NodesPrefix+name)
			var info member.Info
			if err != nil || json.Unmarshal(p.Value, &info) != nil {
				t.Fatal(err)
			}
			opens = append(opens, b.net.Shut(info.Address))
		}
		x, endX := b.start(b.config("x", "nowhere:1"))
		defer endX()
		<-time.After(4 * time.Second) // longer than one dialling of an address that refuses
		if state := b.stateOf(x, "x"); state != inspect.NodeJoining {
			t.Fatalf("x is %s with a session with one of three hosts", state)
		}
		for _, open := range opens {
			open()
		}
		<-time.After(time.Minute)
		if err := x.Err(); err != nil {
			t.Fatalf("x did not live: %v", err)
		}
		if state := b.stateOf(x, "x"); state != inspect.NodeActive {
			t.Errorf("x is %s when all hosts can be dialled: it was to dial them again", state)
		}
	})
}

func (b *bubble) stateOf(n *system.Node, name raysys.NodeID) string {
	b.t.Helper()
	st, err := n.Status(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range st.Nodes {
		if m.Name == name {
			return m.State
		}
	}
	return ""
}

// TestHandedOverASession: a host gives shards to a new one only once there is a session between them, though others have one.
func TestHandedOverASession(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		a, endA := b.start(b.config("a", ""))
		defer endA()
		other, endB := b.start(b.config("b", ""))
		defer endB()
		_, endC := b.start(b.config("c", ""))
		defer endC()
		<-time.After(30 * time.Second)
		before := system.Leads(a)
		b.net.Delay("a", "x", 700*time.Millisecond, 0)
		x, endX := b.start(b.config("x", ""))
		defer endX()
		waited := false
		for range 100 {
			<-time.After(50 * time.Millisecond)
			host := b.stateOf(other, "x") == inspect.NodeActive
			if host && system.Connected(a) < 3 {
				waited = true
				if leads := system.Leads(a); leads != before {
					t.Fatalf("a gave %d of its %d shards to a host that it has no session with", before-leads, before)
				}
			}
		}
		if !waited {
			t.Error("x became a host only when a had a session with it: the test shows nothing")
		}
		<-time.After(30 * time.Second)
		if leads := system.Leads(a); leads == before || system.Leads(x) == 0 {
			t.Errorf("a leads %d of the %d shards it had, and x %d, when both have a session", leads, before, system.Leads(x))
		}
	})
}
