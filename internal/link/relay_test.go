package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// triangle runs f in virtual time with a and b connected to r and cut off from each other.
func triangle(t *testing.T, f func(t *testing.T, n *linktest.Network, a, r, b *end)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := linktest.NewNetwork(1)
		a, r, b := open(t, "a", n.Transport("a")), open(t, "r", n.Transport("r")), open(t, "b", n.Transport("b"))
		a.connect(r)
		b.connect(r)
		n.Cut("a", "b")
		synctest.Wait()
		f(t, n, a, r, b)
		for _, e := range []*end{a, b, r} {
			e.Close(context.Background())
		}
	})
}

func (e *end) connectVia(node raysys.NodeID, via raysys.NodeID) *link.Peer {
	e.t.Helper()
	p, err := e.ConnectVia(e.t.Context(), node, e.Peer(via))
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

// TestRelay: a session through a third node is a session, from either side, bulk and more than any window included;
// when the direct way works again it takes the relayed one's place on both sides.
func TestRelay(t *testing.T) {
	for _, swap := range []bool{false, true} {
		t.Run(fmt.Sprintf("swapped %t", swap), func(t *testing.T) {
			triangle(t, func(t *testing.T, n *linktest.Network, a, r, b *end) {
				if swap {
					a, b = b, a
				}
				if _, err := a.Connect(t.Context(), b.node, b.Addr()); !errors.Is(err, link.ErrUnreachable) {
					t.Fatal(err)
				}
				p := a.connectVia(b.node, "r")
				if !p.Relayed() || p.Identity().Node != b.node || a.connectVia(b.node, "r") != p || a.Peer(b.node) != p {
					t.Error("it is no session like others")
				}
				for i := range 200 {
					if err := p.Send(wire.Requests, kindEcho, fmt.Appendf(nil, "%010000d", i)); err != nil {
						t.Fatal(err)
					}
				}
				p.Send(wire.Requests, kindEcho, []byte("end"))
				p.Flush()
				p.SendBulk(kindNote, make([]byte, 3<<20))
				synctest.Wait()
				b.Peer(a.node).SendBulk(kindNote, make([]byte, 3<<20))
				a.expect(fmt.Sprintf("%s replies: end", b.node), fmt.Sprintf("%s bulk: 3145728 bytes", b.node))
				b.expect(fmt.Sprintf("%s bulk: 3145728 bytes", a.node))
				if got := a.count(fmt.Sprintf("%s replies: 10000 bytes", b.node)); got != 200 {
					t.Errorf("%d of 200 replies came", got)
				}
				pass(time.Minute)
				if s := p.Silence(); s > time.Second {
					t.Error("silent for", s)
				}
				if r.count("up") != 2 {
					t.Error("the relay thinks that the session is its own:", r.lines())
				}

				n.Heal("a", "b")
				q := b.connect(a) // the side that was dialed
				if q.Relayed() {
					t.Error("the direct way works and was not taken")
				}
				<-p.Done()
				synctest.Wait()
				a.expect(fmt.Sprintf("down %s(1): ", b.node))
				if now := a.Peer(b.node); now == nil || now.Relayed() {
					t.Error("one side keeps the relayed session")
				}
				q.Send(wire.Requests, kindEcho, []byte("directly"))
				b.expect(fmt.Sprintf("%s replies: directly", a.node))
			})
		})
	}
}

// TestRelayLost: when the relay goes, or what is behind it, the session is down at once and nobody is taken for dead.
func TestRelayLost(t *testing.T) {
	for _, victim := range []raysys.NodeID{"r", "b"} {
		t.Run(string(victim), func(t *testing.T) {
			triangle(t, func(t *testing.T, n *linktest.Network, a, r, b *end) {
				p := a.connectVia("b", "r")
				begin := time.Now()
				n.Kill(victim)
				<-p.Done()
				if took := time.Since(begin); took != 0 || !errors.Is(p.Err(), link.ErrUnreachable) || errors.Is(p.Err(), link.ErrReset) || errors.Is(p.Err(), link.ErrRefused) {
					t.Error(took, p.Err())
				}
				if err := p.Send(wire.Requests, kindNote, nil); !errors.Is(err, raysys.ErrNotDelivered) {
					t.Error(err)
				}
				if victim == "b" {
					_, err := a.ConnectVia(t.Context(), "b", a.Peer("r"))
					if !errors.Is(err, link.ErrUnreachable) || !strings.Contains(err.Error(), "node r has no session with b") {
						t.Error(err)
					}
				}
				synctest.Wait()
				for _, e := range []*end{a, r} {
					if n := e.Streams(); n != 0 {
						t.Errorf("%s keeps %d entries of streams", e.node, n)
					}
				}
			})
		})
	}
}

// TestRelayedEnd: the other end closes without a word. On a direct connection that is what a death looks like.
func TestRelayedEnd(t *testing.T) {
	triangle(t, func(t *testing.T, _ *linktest.Network, a, _, b *end) {
		p := a.connectVia("b", "r")
		synctest.Wait()
		b.Peer("a").BreakOff()
		<-p.Done()
		if !errors.Is(p.Err(), link.ErrUnreachable) || errors.Is(p.Err(), link.ErrReset) {
			t.Error(p.Err())
		}
	})
}

// TestRelayFarewell: a reason passes the relay.
func TestRelayFarewell(t *testing.T) {
	triangle(t, func(t *testing.T, _ *linktest.Network, a, _, b *end) {
		a.connectVia("b", "r").Close(errors.New("enough"))
		b.expect("down a(1): closed by the peer: enough")
		a.expect("down b(1): enough")
	})
}

// TestRelayBounds: one hop, direct peers only, and so many streams.
func TestRelayBounds(t *testing.T) {
	triangle(t, func(t *testing.T, n *linktest.Network, a, r, b *end) {
		p := a.connectVia("b", "r")
		c := open(t, "c", n.Transport("c"))
		c.connect(b)
		if _, err := a.ConnectVia(t.Context(), "c", p); !errors.Is(err, link.ErrUnreachable) || !strings.Contains(err.Error(), "cannot relay") {
			t.Error("two hops:", err)
		}
		if _, err := a.ConnectVia(t.Context(), "a", a.Peer("r")); !errors.Is(err, link.CodeSelf) {
			t.Error(err)
		}
		var conns []interface{ Close() error }
		for {
			conn, err := a.OpenStream("b", a.Peer("r"))
			if err != nil {
				if !errors.Is(err, link.ErrUnreachable) || !strings.Contains(err.Error(), "64 streams") {
					t.Error(err)
				}
				break
			}
			conns = append(conns, conn)
		}
		if len(conns) != 63 {
			t.Error("beside the session's,", len(conns), "streams could be opened")
		}
		for _, conn := range conns {
			conn.Close()
		}
		p.Close(errors.New("enough"))
		pass(10 * time.Second)
		for _, e := range []*end{a, r, b} {
			if n := e.Streams(); n != 0 {
				t.Errorf("%s keeps %d entries of streams", e.node, n)
			}
		}
		c.Close(context.Background())
	})
}

// wrapped is a transport of a user, around one of ours.
type wrapped struct{ link.Transport }

// TestRelayTLS: the ends prove their names to each other through the relay, which sees nothing.
func TestRelayTLS(t *testing.T) {
	ca := newAuthority(t)
	a, b := open(t, "a", wrapped{ca.transport("a", "raysys://test/a")}), open(t, "b", wrapped{ca.transport("b", "raysys://test/b")})
	r := open(t, "r", ca.transport("r", "raysys://test/r"))
	a.connect(r)
	b.connect(r)
	r.expect("up a(1)", "up b(1)")
	p := a.connectVia("b", "r")
	if name, err := link.NameOf(p.Certificate()); err != nil || name.Node != "b" {
		t.Error(name, err)
	}
	p.Send(wire.Requests, kindEcho, []byte("secret"))
	a.expect("b replies: secret")
	p.SendBulk(kindNote, make([]byte, 1<<20))
	b.expect("a bulk: 1048576 bytes")
	a.Close(t.Context())
	b.expect("down a(1): closed by the peer: the node closed its link")
}

// TestRelayHostile: frames about streams that break the rules close the session they came over, and those about
// streams that nobody knows do nothing.
func TestRelayHostile(t *testing.T) {
	stream := func(id byte, rest string) string { return string([]byte{id, 0, 0, 0, 0, 0, 0, 0}) + rest }
	open64 := string(link.AppendOpening(nil, 1, "x", "a"))
	for _, c := range []struct {
		name, reason string
		frames       []link.Frame
	}{
		{"no number", "a stream without number or ends", []link.Frame{{Kind: 16, Payload: ""}}},
		{"short data", "a frame of kind 17 has 3 bytes", []link.Frame{{Kind: 17, Payload: "abc"}}},
		{"short close", "a frame of kind 18 has 8 bytes", []link.Frame{{Kind: 18, Payload: stream(1, "")}}},
		{"short more", "a frame of kind 19 has 9 bytes", []link.Frame{{Kind: 19, Payload: stream(1, "x")}}},
		{"flood", "more data than the window", []link.Frame{{Kind: 16, Payload: open64}, {Kind: 17, Payload: stream(1, strings.Repeat("x", 256<<10+1))}}},
		{"generous", "window of", []link.Frame{{Kind: 16, Payload: open64}, {Kind: 19, Payload: stream(1, "\x01\x00\x00\x00")}}},
		{"unknown", "", []link.Frame{{Kind: 17, Payload: stream(9, "x")}, {Kind: 18, Payload: stream(9, "\x02")}, {Kind: 19, Payload: stream(9, "\x01\x00\x00\x00")}}},
		{"of another", "", []link.Frame{{Kind: 16, Payload: string(link.AppendOpening(nil, 1, "z", "a"))}}},
		{"to itself", "", []link.Frame{{Kind: 16, Payload: string(link.AppendOpening(nil, 1, "x", "x"))}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, a := open(t, "b", link.TCP(link.TCPConfig{})), open(t, "a", link.TCP(link.TCPConfig{}))
			a.connect(b)
			b.expect("up a(1)")
			conn := dialRaw(t, b)
			shake(t, conn, greeting())
			b.expect("up x(1)")
			var all []byte
			for _, f := range c.frames {
				f.Class = wire.Replies
				all = f.Append(all)
			}
			conn.Write(all)
			if c.reason != "" {
				b.expect("down x(1): corrupt frame")
				if s := b.lines(); !strings.Contains(strings.Join(s, "\n"), c.reason) {
					t.Error(s)
				}
				return
			}
			for _, f := range c.frames {
				if f.Kind == 16 { // an answer is due
					got := make([]byte, 200)
					n, err := io.ReadAtLeast(conn, got, 17)
					frames, _, _ := link.Split(got[:n], 1<<20)
					if err != nil || len(frames) != 1 || frames[0].Kind != 18 || !strings.HasPrefix(frames[0].Payload, stream(1, "\x03node b relays")) {
						t.Errorf("%q, %v", got[:n], err)
					}
				}
			}
			echo(t, conn, "alive")
		})
	}
}

// TestRelayFormatStays is TestFormatStays for the frames of relays.
func TestRelayFormatStays(t *testing.T) {
	frames := []link.Frame{
		{Kind: 16, Class: wire.Replies, Payload: string(link.AppendOpening(nil, 1<<40, "n1", "n2"))},
		{Kind: 17, Class: wire.Replies, Payload: "\x01\x02\x03\x04\x05\x06\x07\x08bytes of a connection"},
		{Kind: 19, Class: wire.Replies, Payload: "\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x01\x00"},
		{Kind: 18, Class: wire.Replies, Payload: "\x01\x02\x03\x04\x05\x06\x07\x08\x03node r has no session with b"},
	}
	var now []byte
	for _, f := range frames {
		now = f.Append(now)
	}
	then := golden.Bytes(t, "v1/relay", now)
	if !bytes.Equal(then, now) {
		t.Errorf("written differently now:\n%q\n%q", then, now)
	}
	got, _, err := link.Split(then, 1<<20)
	if diff := cmp.Diff(frames, got); diff != "" || err != nil {
		t.Fatal(err, diff)
	}
	id, from, to, err := link.ReadOpening([]byte(got[0].Payload))
	if id != 1<<40 || from != "n1" || to != "n2" || err != nil {
		t.Error(id, from, to, err)
	}
	if more, end := link.AppendMore(nil, 0x0807060504030201, 1<<16), link.AppendEnd(nil, 0x0807060504030201, 3, "node r has no session with b"); string(more) != got[2].Payload || string(end) != got[3].Payload {
		t.Errorf("%q %q", more, end)
	}
}

func FuzzOpening(f *testing.F) {
	f.Add(link.AppendOpening(nil, 1<<40, "n1", "n2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, from, to, err := link.ReadOpening(b)
		if err != nil {
			if !errors.Is(err, link.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		again, f2, t2, err := link.ReadOpening(link.AppendOpening(nil, id, from, to))
		if err != nil || again != id || f2 != from || t2 != to {
			t.Error(again, f2, t2, err)
		}
	})
}

// bare leaves relayed connections in the clear, as a hostile program does.
type bare struct{ link.Transport }

func (bare) Secure(conn net.Conn, _ bool) net.Conn { return conn }

// TestRelayImpostor: a node says through a relay that it is another. It needs that one's certificate there too.
func TestRelayImpostor(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %t", plain), func(t *testing.T) {
			ca := newAuthority(t)
			b, r := open(t, "b", wrapped{ca.transport("b", "raysys://test/b")}), open(t, "r", ca.transport("r", "raysys://test/r"))
			b.connect(r)
			transport := ca.transport("c", "raysys://test/c")
			if plain {
				transport = bare{transport}
			}
			liar := open(t, "c", transport)
			via := liar.connect(r)
			r.expect("up b(1)", "up c(1)")
			conn, err := liar.OpenStream("b", via)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			h := greeting()
			h.Identity.Node = "a"
			link.WriteMessage(conn, 1, h.Append(nil))
			kind, body, err := link.ReadMessage(conn)
			if plain {
				if err == nil {
					t.Errorf("the handshake went on in the clear, with message %d", kind)
				}
				return
			}
			reason, _, _ := link.ReadRejection(body)
			if err != nil || kind != 2 || !errors.Is(reason, link.CodeIdentity) {
				t.Error(kind, reason, err)
			}
		})
	}
}
