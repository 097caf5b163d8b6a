package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// kinds are all frames above the link but KindAdmin, since a member may ask another to drain, and nonsense does so now and
// then, and KindChunk, whose connection takes bodies that were asked for (TestHostile of package transfer).
var kinds = map[wire.Kind]wire.Class{
	wire.KindOpen: wire.Requests, wire.KindShut: wire.Requests, wire.KindCancelTurn: wire.Control,
	wire.KindTasks: wire.Requests, wire.KindTaskResult: wire.Replies, wire.KindTaskCancel: wire.Control,
	wire.KindTaskResults: wire.Replies, wire.KindTaskFinal: wire.Control, wire.KindCall: wire.Requests, wire.KindCallResult: wire.Replies, wire.KindCallCancel: wire.Control,
	wire.KindCalls: wire.Requests, wire.KindCallResults: wire.Replies, wire.KindCallForget: wire.Control,
	wire.KindAwait: wire.Requests, wire.KindAnswer: wire.Replies, wire.KindDrop: wire.Control,
	wire.KindRegistry: wire.Requests, wire.KindLoad: wire.Control,
	wire.KindBallot: wire.Control, wire.KindActor: wire.Requests, wire.KindActorBody: wire.Control,
	wire.KindProbe: wire.Requests, wire.KindBorrow: wire.Requests, wire.KindKeep: wire.Requests, wire.KindHeld: wire.Control,
	wire.KindPull: wire.Control, wire.KindPulled: wire.Replies, wire.KindAsk: wire.Control, wire.KindPullEnd: wire.Control,
	wire.KindRecord: wire.Requests, wire.KindBundles: wire.Requests,
}

// payload is what a liar sends: noise, the beginning of something, numbers far too large.
func payload(rng *rand.Rand) []byte {
	b := make([]byte, rng.IntN(64))
	for i := range b {
		switch rng.IntN(4) {
		case 0:
			b[i] = byte(rng.Uint32())
		case 1:
			b[i] = byte(rng.IntN(4))
		case 2:
			b[i] = 0xff // a number that goes on and on
		}
	}
	return b
}

// namesNoActor are messages that proto.Actor itself uses, here without the actor that each must name.
var namesNoActor = []string{"actor.Watch", "actor.Unwatch", "actor.Terminated"}

// actorMessage is an empty message of a type to an actor, as one of the system.
func actorMessage(of string) []byte {
	b := wire.AppendBytes([]byte{1}, "someone")
	b = append(b, 0)                                     // its request
	b = append(b, 0, 0, 0)                               // no sender
	return append(wire.AppendBytes(append(b, 0), of), 0) // protobuf, no fields
}

// TestHostileMember: a node that was admitted sends frames of every kind with every nonsense. Its connection is closed
// with a reason, and nobody else suffers.
func TestHostileMember(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), testkit.TTL(time.Minute), testkit.Seed(long.Seed())) // nobody hears the liar but n1
	c := k.Cluster()
	ctx := k.Context()
	key := fmt.Sprintf("hostile%d", runs.Add(1))
	if n, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	st, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	address := st.Nodes[0].Address

	// The liar is a member, by the store's word.
	session, err := c.Store().NewSession(ctx, "liar", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(struct {
		V int `json:"v"`
		member.Info
	}{1, member.Info{ID: "liar", Address: "liar:7777", Role: member.Driver}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Store().Txn(ctx, []store.Op{store.Lock(shardlog.NodesPrefix+"liar", info, session)})
	if err != nil {
		t.Fatal(err)
	}
	down, answered := make(chan error, 1024), make(chan uint64, 1024) // more than can be on their way
	l, err := link.New(link.Config{
		Self: func() link.Identity {
			return link.Identity{Cluster: st.Cluster, Node: "liar", Incarnation: made[0].Create, Role: "driver"}
		},
		// It listens nowhere: n1 dials a node whose connection it has closed, and the new session would end the old one
		// at the liar before the reason was read.
		Transport: c.Network().Transport("liar"), Down: func(_ *link.Peer, cause error) { down <- cause },
		Handlers: map[wire.Kind]link.Handler{wire.KindAnswer: func(_ *link.Peer, _ wire.Class, b []byte) {
			r := wire.NewReader(b)
			answered <- r.Uvarint()
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())

	sent, closed := 0, 0
	reasons := map[wire.Kind]int{}
	for kind, class := range kinds {
		for i := range long.Form(60, 3000) {
			lie := payload(k.Rand())
			if kind == wire.KindActor && i < len(namesNoActor) {
				lie = actorMessage(namesNoActor[i])
			}
			dial, cancel := context.WithTimeout(ctx, 10*time.Second)
			p, err := l.Connect(dial, "n1", address)
			cancel()
			if err != nil {
				t.Fatalf("after %d frames n1 takes no connection: %v", sent, err)
			}
			if err := p.Send(class, kind, lie); err != nil {
				t.Fatalf("kind %d: a new connection takes no frame: %v", kind, err)
			}
			p.Flush()
			sent++
			// An honest request behind it is answered when the lie was swallowed.
			slot := uint64(1)<<40 + uint64(sent)
			_ = p.Send(wire.Requests, wire.KindAdmin, append(wire.AppendUvarint(nil, slot), 1))
			p.Flush()
			for over := false; !over; {
				select {
				case cause := <-down:
					closed, over = closed+1, true
					if errors.Is(cause, link.ErrReset) || strings.Contains(cause.Error(), "panic") {
						t.Errorf("kind %d: the connection was not closed with a reason: %v", kind, cause)
					}
					reasons[kind]++
				case n := <-answered:
					over = n == slot
				case <-time.After(10 * time.Second):
					t.Fatalf("kind %d: after frame %d n1 neither answers nor closes", kind, sent)
				}
			}
		}
	}
	for i := range 2 {
		if n := c.Node(i + 1); n == nil || n.Err() != nil {
			t.Errorf("node n%d ended", i+1)
		}
	}
	if n, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); n != 2 || err != nil {
		t.Error(n, err)
	}
	if n, err := square.Go(ctx, job{N: 3}).Get(ctx); n != 9 || err != nil {
		t.Error(n, err)
	}
	if closed < sent/4 {
		t.Errorf("%d of %d frames of nonsense closed the connection: %v", closed, sent, reasons)
	}
	figure(t, "a member that lies: %d frames of %d kinds, %d closed its connection, with a reason; the nodes live", sent, len(kinds), closed)
}

// TestHostileStrangers: what can be sent to a node's port by who is no node. Each connection ends, soon, and the
// process lives.
func TestHostileStrangers(t *testing.T) {
	p := testkit.Processes(t, 1, testkit.CPU(1))
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	st, err := p.Node().Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var address string
	for _, n := range st.Nodes {
		if n.Name == p.Proc(1).Name() {
			address = n.Address
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	lies := map[string]func() []byte{
		"nothing":         func() []byte { return nil },
		"noise":           func() []byte { return noise(4096) },
		"a huge length":   func() []byte { return append([]byte{0xff, 0xff, 0xff, 0x7f}, noise(16)...) },
		"a length of all": func() []byte { return append([]byte{0xff, 0xff, 0xff, 0xff}, noise(16)...) },
		"zeros":           func() []byte { return make([]byte, 1<<16) },
		"HTTP":            func() []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
	}
	sent := 0
	for name, lie := range lies {
		for range long.Form(5, 200) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatalf("%s: the process takes no connection any more: %v", name, err)
			}
			sent++
			_, _ = conn.Write(lie())
			if name == "nothing" {
				conn.Close() // one that stays is in the table below
				continue
			}
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				t.Errorf("%s: the connection stays open", name)
			}
			conn.Close()
		}
	}
	// One that says nothing is not waited for longer than a handshake may take.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
		t.Error("a silent connection stays open")
	}
	if n, err := square.Go(p.Context(), job{N: 4}).Get(p.Context()); n != 16 || err != nil {
		t.Error(n, err)
	}
	if !p.Proc(1).Runs() {
		t.Error("the process ended")
	}
	figure(t, "strangers at a node's port: %d connections of nonsense, all closed; the process lives", sent)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestCertificateOfAnotherNode: in a cluster with TLS, a certificate of the cluster's CA is good for its own node
// alone.
func TestCertificateOfAnotherNode(t *testing.T) {
	const cluster = "secure"
	ca := newAuthority(t)
	p := testkit.Processes(t, 2, testkit.CPU(1), testkit.Config(system.Config{
		Cluster: &system.ClusterConfig{Name: cluster, TLS: ca.files(cluster, "test")},
	}), testkit.EnvOf(func(i int) []string {
		f := ca.files(cluster, fmt.Sprintf("p%d", i))
		return []string{"RAYSYS_TLS_CERT=" + f.Cert, "RAYSYS_TLS_KEY=" + f.Key, "RAYSYS_TLS_CA=" + f.CA}
	}))
	ctx := p.Context()
	if n, err := add.Call(ctx, counters.Get("a"), 1).Get(ctx); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	st, err := p.Node().Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var target, victim inspect.NodeStatus
	for _, n := range st.Nodes {
		switch n.Name {
		case "p1":
			target = n
		case "p2":
			victim = n
		}
	}
	for name, c := range map[string]struct {
		files system.TLSFiles
		code  error
	}{
		"of another node":                      {ca.files(cluster, "p9"), link.CodeIdentity},
		"of another cluster":                   {ca.files("elsewhere", "p2"), link.CodeIdentity},
		"of that node, with a key of its own":  {ca.files(cluster, "p2"), nil},
		"of that node, by another certificate": {newAuthority(t).files(cluster, "p2"), nil},
	} {
		l, err := link.New(link.Config{
			// It says that it is p2, in its present life.
			Self: func() link.Identity {
				return link.Identity{Cluster: cluster, Node: "p2", Incarnation: victim.Incarnation}
			},
			Transport: ca.transport(c.files), Listen: "127.0.0.1:0",
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = l.Connect(ctx, "p1", target.Address)
		if err == nil || c.code != nil && !errors.Is(err, c.code) {
			t.Errorf("a certificate %s: %v", name, err)
		} else {
			t.Logf("a certificate %s: %v", name, err)
		}
		l.Close(context.Background())
	}
	if n, err := add.Call(ctx, counters.Get("a"), 1).Get(ctx); n != 2 || err != nil {
		t.Error(n, err)
	}
	for name, inc := range statusOf(t, p) {
		if name == "p2" && inc != victim.Incarnation {
			t.Error("the node that was impersonated had to start over")
		}
	}
}
