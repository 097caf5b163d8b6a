package link_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// dialRaw opens a connection on which the test speaks for itself.
func dialRaw(t *testing.T, to *end) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// greeting is a hello that node "b" takes.
func greeting() link.Hello {
	return link.Hello{
		Identity: link.Identity{Cluster: "test", Node: "x", Incarnation: 1}, Min: 1, Max: 1, To: "b", Session: 1,
		Window: [3]uint64{1 << 20, 1 << 20, 1 << 20}, Frame: 1 << 20, Bulk: 1 << 20,
	}
}

// shake does the handshake by hand.
func shake(t *testing.T, conn net.Conn, h link.Hello) {
	t.Helper()
	link.WriteMessage(conn, 1, h.Append(nil))
	if kind, _, err := link.ReadMessage(conn); err != nil || kind != 1 {
		t.Fatal(kind, err)
	}
	link.WriteMessage(conn, 3, link.AppendConfirm(nil, 1))
}

// TestHostileFrames: each closes its connection with a reason that both sides get, and nothing else happens.
func TestHostileFrames(t *testing.T) {
	frame := func(k wire.Kind, c wire.Class, payload string) []byte {
		return link.Frame{Kind: k, Class: c, Payload: payload}.Append(nil)
	}
	for _, c := range []struct {
		name, reason string
		bytes        []byte
	}{
		{"oversize", "says it has 4294967295 bytes, the limit is 1048576", []byte{255, 255, 255, 255, 40, 2, 0, 0}},
		{"one too many", "says it has 1048577 bytes", []byte{1, 0, 16, 0, 40, 2, 0, 0}},
		{"garbage", "corrupt frame", []byte("GET / HTTP/1.1\r\nHost: b\r\n\r\n")},
		{"class", "is of class 9", frame(40, 9, "x")},
		{"bulk on express", "is of bulk", frame(40, wire.Bulk, "x")},
		{"short ping", "a frame of kind 1 has 3 bytes", frame(1, wire.Control, "abc")},
		{"long pong", "a frame of kind 2 has 9 bytes", frame(2, wire.Control, "123456789")},
		{"credit of no class", "a frame of kind 3 has 5 bytes", frame(3, wire.Control, "\x07\x00\x00\x00\x01")},
		{"no credit left", "more control than credits", bytes.Repeat(frame(200, wire.Control, strings.Repeat("x", 1<<20)), 4)},
		{"after good ones", "a frame of kind 1 has 0 bytes", append(frame(kindNote, wire.Requests, "good"), frame(1, wire.Control, "")...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, "b", link.TCP(link.TCPConfig{}), func(cfg *link.Config) {
				cfg.Up = func(p *link.Peer) { p.Pause(wire.Control) } // so that credits end
			})
			conn := dialRaw(t, b)
			shake(t, conn, greeting())
			go conn.Write(c.bytes) // the last of it may find the connection closed
			b.expect("down x(1): corrupt frame")
			if s := b.lines(); !strings.Contains(s[len(s)-1], c.reason) {
				t.Errorf("%q does not say %q", s, c.reason)
			}
			got, _ := io.ReadAll(conn)
			frames, _, err := link.Split(got, 1<<20)
			if err != nil || len(frames) == 0 || frames[len(frames)-1].Kind != 4 || !strings.Contains(frames[len(frames)-1].Payload, c.reason) {
				t.Errorf("the other side was told %q (%v)", got, err)
			}
			a := open(t, "a", link.TCP(link.TCPConfig{}))
			a.connect(b).Send(wire.Requests, kindEcho, []byte("alive"))
			a.expect("b replies: alive")
		})
	}
}

// TestGenerousCredit: more credits than a number holds do no harm.
func TestGenerousCredit(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}))
	conn := dialRaw(t, b)
	shake(t, conn, greeting())
	most := link.Frame{Kind: 3, Class: wire.Control, Payload: "\x02\xff\xff\xff\xff"}.Append(nil)
	conn.Write(bytes.Repeat(most, 10_000))
	echo(t, conn, "fine")
}

// echo sends a request by hand and expects it back.
func echo(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	conn.Write(link.Frame{Kind: kindEcho, Class: wire.Requests, Payload: text}.Append(nil))
	want := link.Frame{Kind: kindNote, Class: wire.Replies, Payload: text}.Append(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
}

// TestLaterVersion: kinds below 32, flags and fields that this version does not know are skipped.
func TestLaterVersion(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}))
	conn := dialRaw(t, b)
	h := greeting()
	h.Max, h.UnknownField = 7, true
	shake(t, conn, h)
	conn.Write(link.Frame{Kind: 12, Class: wire.Control, Payload: "of a later link"}.Append(nil))
	conn.Write(link.Frame{Kind: 30, Class: wire.Replies, Payload: "of a later link"}.Append(nil))
	conn.Write(link.Frame{Kind: kindNote, Class: wire.Requests, Flags: 0xffff, Payload: "flags"}.Append(nil))
	b.expect("x requests: flags")
	p := b.Peer("x")
	conn.Close()
	<-p.Done() // until then it may not be counted
	if s := p.Stats(); s.Unknown != 2 {
		t.Errorf("%+v", s)
	}
}

// TestHostileHandshakes: each is rejected with its code and text, before anybody is told of a peer.
func TestHostileHandshakes(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}))
	change := func(f func(*link.Hello)) []byte {
		h := greeting()
		f(&h)
		var w bytes.Buffer
		link.WriteMessage(&w, 1, h.Append(nil))
		return w.Bytes()
	}
	message := func(kind uint8, body string) []byte {
		var w bytes.Buffer
		link.WriteMessage(&w, kind, []byte(body))
		return w.Bytes()
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		code  link.Code
		text  string
	}{
		{"http", []byte("GET / HTTP/1.1\r\n\r\n"), link.CodeMalformed, `begins with "GET / H"`},
		{"oversize", []byte("raysys\x01\x01\xff\xff\xff\xff"), link.CodeMalformed, "4294967295 bytes"},
		{"another message", message(9, ""), link.CodeMalformed, "message 9 came first"},
		{"confirm first", message(3, ""), link.CodeMalformed, "message 3 came first"},
		{"cut off field", message(1, "\x01\xff"), link.CodeMalformed, "corrupt"},
		{"empty", message(1, ""), link.CodeProtocol, "0 to 0"},
		{"later protocol", change(func(h *link.Hello) { h.Min, h.Max = 2, 9 }), link.CodeProtocol, "2 to 9"},
		{"no session", change(func(h *link.Hello) { h.Session = 0 }), link.CodeMalformed, "lacks"},
		{"no node", change(func(h *link.Hello) { h.Identity.Node = "" }), link.CodeMalformed, "lacks"},
		{"no credits", change(func(h *link.Hello) { h.Window[1] = 0 }), link.CodeMalformed, "no credits"},
		{"long name", change(func(h *link.Hello) { h.Identity.Role = strings.Repeat("r", 5000) }), link.CodeMalformed, "5000 bytes"},
		{"cluster", change(func(h *link.Hello) { h.Identity.Cluster = "other" }), link.CodeCluster, "other"},
		{"self", change(func(h *link.Hello) { h.Identity.Node = "b" }), link.CodeSelf, "itself"},
		{"for somebody else", change(func(h *link.Hello) { h.To = "z" }), link.CodeNode, "z was expected"},
		{"bulk without session", message(4, string(link.BulkHello{Cluster: "test", From: "x", To: "b", Session: 1}.Append(nil))), link.CodeNode, "no session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dialRaw(t, b)
			conn.Write(c.bytes)
			kind, body, err := link.ReadMessage(conn)
			if err != nil || kind != 2 {
				t.Fatal(kind, err)
			}
			r, _, err := link.ReadRejection(body)
			if err != nil || r.Code != c.code || !strings.Contains(r.Text, c.text) {
				t.Error(r, err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
	if b.count("up") != 0 || b.count("rejected") == 0 {
		t.Error(b.lines())
	}
}

// TestStolenBulk: nobody can take a session's bulk connection who does not know the session.
func TestStolenBulk(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}))
	a := open(t, "a", link.TCP(link.TCPConfig{}))
	p := a.connect(b)
	b.expect("up a")
	conn := dialRaw(t, b)
	link.WriteMessage(conn, 4, link.BulkHello{Cluster: "test", From: "a", To: "b", Incarnation: 1, Session: 12345}.Append(nil))
	kind, _, err := link.ReadMessage(conn)
	if kind != 2 || err != nil {
		t.Error(kind, err)
	}
	p.SendBulk(kindNote, []byte("mine"))
	b.expect("a bulk: mine")
}

// TestOrder: of two sessions that the elder confirmed, the later stays, in whatever order that becomes known.
func TestOrder(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}))
	hello := func(session uint64) net.Conn {
		conn := dialRaw(t, b)
		h := greeting()
		h.Identity.Node, h.Session = "a", session
		link.WriteMessage(conn, 1, h.Append(nil))
		if kind, _, err := link.ReadMessage(conn); err != nil || kind != 1 {
			t.Fatal(kind, err)
		}
		return conn
	}
	one, two := hello(1), hello(2)
	link.WriteMessage(two, 3, link.AppendConfirm(nil, 20))
	b.expect("up a(1)")
	link.WriteMessage(one, 3, link.AppendConfirm(nil, 10))
	if kind, _, err := link.ReadMessage(one); kind != 2 || err != nil {
		t.Error(kind, err)
	}
	echo(t, two, "still here")
	if b.count("up") != 1 || b.count("down") != 0 {
		t.Error(b.lines())
	}
}
