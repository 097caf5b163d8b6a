package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

const (
	ourSecret   = "the secret of cluster test, long"
	otherSecret = "the secret of another test, long"
)

// secret gives a node a secret; without one it is as a program from before. Of the nodes named in former it believes that
// they are such programs.
func secret(s string, former ...raysys.NodeID) func(*link.Config) {
	return func(c *link.Config) {
		c.Secret = []byte(s)
		c.Unproven = func(_ context.Context, who link.Identity) error {
			for _, f := range former {
				if who.Node == f {
					return nil
				}
			}
			return errors.New("its record has the mark")
		}
	}
}

// TestProof: on plain connections nodes need the same secret, whichever dials and whichever is the elder; only a node that
// is known as one from before needs none.
func TestProof(t *testing.T) {
	const refused = "did not prove that it has read the secret"
	for _, c := range []struct {
		name           string
		dialer, dialed func(*link.Config)
		said, by       string // what Connect returns, and what the other side's log begins with behind the name
	}{
		{"same", secret(ourSecret), secret(ourSecret), "", ""},
		{"none", secret(""), secret(""), "", ""},
		{"others", secret(otherSecret), secret(ourSecret), "handshake rejected: not admitted: node %[2]s " + refused, "peer says not admitted: node %[2]s"},
		{"dialer without", secret(""), secret(ourSecret), "peer says not admitted: node %[1]s " + refused, "not admitted: node %[1]s"},
		{"dialed without", secret(ourSecret), secret(""), "handshake rejected: not admitted: node %[2]s " + refused, "peer says not admitted: node %[2]s"},
		{"former dialer", secret(""), secret(ourSecret, "a", "b"), "", ""},
		{"former dialed", secret(ourSecret, "a", "b"), secret(""), "", ""},
		{"former with a wrong proof", secret(otherSecret), secret(ourSecret, "a", "b"), "handshake rejected: not admitted: node %[2]s " + refused, "peer says"},
	} {
		for _, names := range [][2]raysys.NodeID{{"a", "b"}, {"b", "a"}} {
			t.Run(fmt.Sprintf("%s/%s dials", c.name, names[0]), func(t *testing.T) {
				each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
					one := open(t, names[0], transport(names[0]), c.dialer)
					two := open(t, names[1], transport(names[1]), c.dialed)
					p, err := one.Connect(t.Context(), two.node, two.Addr())
					if c.said != "" {
						want := fmt.Sprintf(c.said+"%[3]s", names[0], names[1], "")
						if !errors.Is(err, link.CodeNotAllowed) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ourSecret) {
							t.Errorf("%v, want %q", err, want)
						}
						two.expect(fmt.Sprintf("rejected %[1]s: handshake rejected: "+c.by+"%[3]s", names[0], names[1], ""))
						if one.count("up")+two.count("up") != 0 {
							t.Error("a rejected session was up")
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					p.Send(wire.Requests, kindEcho, []byte("express"))
					p.SendBulk(kindNote, []byte("there"))
					one.expect(fmt.Sprintf("%s replies: express", names[1]))
					two.expect(fmt.Sprintf("%s bulk: there", names[0]))
					two.Peer(names[0]).SendBulk(kindNote, []byte("back"))
					one.expect(fmt.Sprintf("%s bulk: back", names[1]))
				})
			})
		}
	}
}

// TestNoProofWithTLS: certificates prove more, so nobody asks for the secret.
func TestNoProofWithTLS(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, "a", ca.transport("a", "raysys://test/a"), secret(ourSecret))
	b := open(t, "b", ca.transport("b", "raysys://test/b"), secret(otherSecret))
	a.connect(b).SendBulk(kindNote, []byte("there"))
	b.expect("a bulk: there")
}

// TestProofThroughRelay: the relay is a member like others, and cannot speak for the nodes at the ends.
func TestProofThroughRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := linktest.NewNetwork(1)
		var ends []*end
		for _, node := range []raysys.NodeID{"a", "r", "b", "x"} {
			change := secret(ourSecret)
			switch node {
			case "r":
				change = secret(ourSecret, "x")
			case "x":
				change = secret("")
			}
			ends = append(ends, open(t, node, n.Transport(node), change))
		}
		a, r, b, x := ends[0], ends[1], ends[2], ends[3]
		for _, e := range []*end{a, b, x} {
			r.connect(e)
		}
		n.Cut("a", "b")
		n.Cut("x", "b")
		synctest.Wait()
		a.connectVia("b", "r").SendBulk(kindNote, []byte("there"))
		b.expect("a bulk: there")
		if _, err := x.ConnectVia(t.Context(), "b", x.Peer("r")); !errors.Is(err, link.CodeNotAllowed) {
			t.Error("a relayed connection that proved nothing:", err)
		}
		for _, e := range []*end{a, b, x, r} {
			e.Close(context.Background())
		}
	})
}

// tape is a transport that keeps what its node writes on each connection that it dials.
type tape struct {
	link.Transport
	mu   sync.Mutex
	said []*bytes.Buffer
}

type taped struct {
	net.Conn
	tape *tape
	said *bytes.Buffer
}

func (t *tape) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := t.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = append(t.said, &bytes.Buffer{})
	return &taped{conn, t, t.said[len(t.said)-1]}, nil
}

func (c *taped) Write(b []byte) (int, error) {
	c.tape.mu.Lock()
	c.said.Write(b)
	c.tape.mu.Unlock()
	return c.Conn.Write(b)
}

// recorded returns the handshake's messages on the n-th connection.
func (t *tape) recorded(tt *testing.T, n int, want ...uint8) []byte {
	tt.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := bytes.NewReader(t.said[n].Bytes())
	for _, w := range want {
		if kind, _, err := link.ReadMessage(r); err != nil || kind != w {
			tt.Fatalf("message %d is recorded, want %d: %v", kind, w, err)
		}
	}
	return t.said[n].Bytes()[:t.said[n].Len()-r.Len()]
}

// refusedAfterChallenge sends b and expects the challenge, and then no.
func refusedAfterChallenge(t *testing.T, to *end, b []byte) {
	t.Helper()
	conn := dialRaw(t, to)
	conn.Write(b)
	if kind, _, err := link.ReadMessage(conn); err != nil || kind != 5 {
		t.Fatal("no challenge came:", kind, err)
	}
	isRefused(t, conn, "did not prove")
}

func isRefused(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	kind, body, err := link.ReadMessage(conn)
	if err != nil || kind != 2 {
		t.Fatal("no rejection came:", kind, err)
	}
	if r, _, err := link.ReadRejection(body); err != nil || r.Code != link.CodeNotAllowed || !strings.Contains(r.Text, text) {
		t.Error(r, err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error("the connection stays open:", err)
	}
}

// TestPlayback: what a node said once proves nothing when another says it again, neither while the session lives nor after
// it, nor on a connection of the other kind.
func TestPlayback(t *testing.T) {
	for _, node := range []raysys.NodeID{"a", "x"} { // elder and younger than b
		b := open(t, "b", link.TCP(link.TCPConfig{}), secret(ourSecret))
		rec := &tape{Transport: link.TCP(link.TCPConfig{})}
		a := open(t, node, rec, secret(ourSecret))
		p := a.connect(b)
		p.SendBulk(kindNote, []byte("there"))
		b.expect(fmt.Sprintf("%s bulk: there", node))
		express, bulk := rec.recorded(t, 0, 1, 6, 3), rec.recorded(t, 1, 4, 6)
		refusedAfterChallenge(t, b, express)
		refusedAfterChallenge(t, b, bulk)
		asBulk := bytes.Clone(express)
		asBulk[len("raysys\x01")] = 4 // the type of the first message
		refusedAfterChallenge(t, b, asBulk)
		p.SendBulk(kindNote, []byte("still mine"))
		b.expect(fmt.Sprintf("%s bulk: still mine", node))
		p.Close(nil)
		b.expect("down")
		refusedAfterChallenge(t, b, express)
		if n := b.count("up"); n != 1 {
			t.Errorf("%d sessions were up, one was proved", n)
		}
	}
}

// TestProofOfTheOtherSide: the accepting side's MAC, sent back to it, is no proof of the dialer.
func TestProofOfTheOtherSide(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}), secret(ourSecret))
	conn := dialRaw(t, b)
	h := greeting()
	h.Nonce = "0123456789abcdef"
	link.WriteMessage(conn, 1, h.Append(nil))
	kind, body, err := link.ReadMessage(conn)
	if err != nil || kind != 5 {
		t.Fatal(kind, err)
	}
	p, err := link.ReadProof(body)
	if err != nil {
		t.Fatal(err)
	}
	link.WriteMessage(conn, 6, link.Proof{MAC: p.MAC}.Append(nil))
	isRefused(t, conn, "node x did not prove")
	b.expect("rejected x: handshake rejected: not admitted")
}

// TestBulkWithoutProof: who knows the number of a proved session, which goes over the network in the clear, has none of it.
func TestBulkWithoutProof(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}), secret(ourSecret, "a"))
	rec := &tape{Transport: link.TCP(link.TCPConfig{})}
	a := open(t, "a", rec, secret(ourSecret))
	p := a.connect(b)
	_, body, err := link.ReadMessage(bytes.NewReader(rec.recorded(t, 0, 1)))
	if err != nil {
		t.Fatal(err)
	}
	h, err := link.ReadHello(body)
	if err != nil {
		t.Fatal(err)
	}
	conn := dialRaw(t, b)
	link.WriteMessage(conn, 4, link.BulkHello{Cluster: "test", From: "a", To: "b", Incarnation: 1, Session: h.Session}.Append(nil))
	isRefused(t, conn, "node a did not prove")
	p.SendBulk(kindNote, []byte("mine"))
	b.expect("a bulk: mine")
}

// impostor listens in the place of b and lets f answer.
func impostor(t *testing.T, f func(conn net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			f(conn)
			conn.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

// TestImpostorThatListens: the dialer believes neither a played-back challenge nor an answer without one.
func TestImpostorThatListens(t *testing.T) {
	a := open(t, "a", link.TCP(link.TCPConfig{}), secret(ourSecret))
	b := open(t, "b", link.TCP(link.TCPConfig{}), secret(ourSecret))
	conn := dialRaw(t, b)
	h := greeting()
	h.Identity.Node, h.Nonce = "a", "0123456789abcdef"
	link.WriteMessage(conn, 1, h.Append(nil))
	_, challenge, err := link.ReadMessage(conn)
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]func(conn net.Conn, got link.Hello){
		"played back": func(conn net.Conn, _ link.Hello) { link.WriteMessage(conn, 5, challenge) },
		"none": func(conn net.Conn, got link.Hello) {
			h := greeting()
			h.Identity.Node, h.To, h.Session = "b", "", got.Session
			link.WriteMessage(conn, 1, h.Append(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			addr := impostor(t, func(conn net.Conn) {
				_, body, err := link.ReadMessage(conn)
				got, err2 := link.ReadHello(body)
				if err != nil || err2 != nil {
					t.Error(err, err2)
					return
				}
				answer(conn, got)
				isRefused(t, conn, "node b did not prove")
			})
			if _, err := a.Connect(t.Context(), "b", addr); !errors.Is(err, link.CodeNotAllowed) {
				t.Error(err)
			}
		})
	}
	if a.count("up") != 0 {
		t.Error(a.lines())
	}
}

// TestUnprovenBlocksNobody: connections that have not proved themselves hold up no member, and are the first to give way.
func TestUnprovenBlocksNobody(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}), secret(ourSecret), func(c *link.Config) { c.HandshakeTimeout = time.Hour })
	h := greeting()
	h.Nonce = "0123456789abcdef"
	for range link.MaxSilent + 1 {
		conn := dialRaw(t, b)
		link.WriteMessage(conn, 1, h.Append(nil))
		if kind, _, err := link.ReadMessage(conn); err != nil || kind != 5 {
			t.Fatal(kind, err)
		}
	}
	b.expect("rejected x: closed for a newer one: 256 connections of 127.0.0.1 have sent no hello or no proof")
	x := open(t, "x", link.TCP(link.TCPConfig{}), secret(ourSecret))
	x.connect(b).Send(wire.Requests, kindEcho, []byte("alive"))
	x.expect("b replies: alive")
}

// TestProofCovers: a MAC is good for one side, one kind of connection and one pair of hellos.
func TestProofCovers(t *testing.T) {
	type said struct {
		secret  string
		dialing bool
		first   uint8
		h       link.Hello
		p       link.Proof
	}
	hello := someHello
	hello.Nonce = "0123456789abcdef"
	good := said{ourSecret, true, 1, hello, someChallenge}
	seen := map[string]string{link.MAC(good.secret, good.dialing, good.first, good.h, good.p): "none"}
	for name, change := range map[string]func(*said){
		"secret":                   func(s *said) { s.secret = otherSecret },
		"side":                     func(s *said) { s.dialing = false },
		"kind of connection":       func(s *said) { s.first = 4 },
		"cluster":                  func(s *said) { s.h.Identity.Cluster = "other" },
		"dialer":                   func(s *said) { s.h.Identity.Node = "n3" },
		"dialer's incarnation":     func(s *said) { s.h.Identity.Incarnation++ },
		"dialer's nonce":           func(s *said) { s.h.Nonce = "fedcba9876543210" },
		"dialed node":              func(s *said) { s.h.To = "n3" },
		"session":                  func(s *said) { s.h.Session++ },
		"dialed one's incarnation": func(s *said) { s.p.Incarnation++ },
		"dialed one's nonce":       func(s *said) { s.p.Nonce = "fedcba9876543210" },
		"names' border":            func(s *said) { s.h.Identity.Cluster, s.h.Identity.Node = "prodn", "1" },
	} {
		s := good
		change(&s)
		mac := link.MAC(s.secret, s.dialing, s.first, s.h, s.p)
		if other, ok := seen[mac]; ok {
			t.Errorf("changes to %s and to %s give the same MAC", name, other)
		}
		seen[mac] = name
	}
}

func FuzzProof(f *testing.F) {
	f.Add(someChallenge.Append(nil))
	f.Add(someProof.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := link.ReadProof(b)
		if err != nil {
			if !errors.Is(err, link.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if again, err := link.ReadProof(p.Append(nil)); err != nil || again != p {
			t.Error(p, again, err)
		}
	})
}
