package link_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
)

// TestAnotherNodeAnswers: the dialer refuses a node other than the one that it dialed, whatever that one says of itself.
func TestAnotherNodeAnswers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, body, err := link.ReadMessage(conn)
		if err != nil {
			t.Error(err)
			return
		}
		asked, err := link.ReadHello(body)
		h := greeting()
		h.Identity.Node, h.To, h.Session, h.Order = "z", "a", asked.Session, 1
		link.WriteMessage(conn, 1, h.Append(nil))
		if kind, _, _ := link.ReadMessage(conn); err != nil || kind != 2 {
			t.Errorf("node z, which answered where b was dialed, was sent message %d and not a rejection", kind)
		}
	}()
	a := open(t, "a", link.TCP(link.TCPConfig{}))
	if _, err := a.Connect(t.Context(), "b", ln.Addr().String()); !errors.Is(err, link.CodeNode) {
		t.Errorf("the dialer of b took node z for it: %v", err)
	}
	<-done
	if a.count("up") != 0 {
		t.Error("a session began with a node that was not dialed:", a.lines())
	}
}

// detour sends later connections to another address.
type detour struct {
	link.Transport
	to atomic.Pointer[string]
}

func (d *detour) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if to := d.to.Load(); to != nil {
		addr = *to
	}
	return d.Transport.Dial(ctx, addr)
}

// TestBulkIsTheSessionsNode: the dialer of a bulk connection checks that the certificate at its other end is the session's
// node's, and sends nothing to another.
func TestBulkIsTheSessionsNode(t *testing.T) {
	ca := newAuthority(t)
	way := &detour{Transport: ca.transport("a", "raysys://test/a")}
	a := open(t, "a", way)
	b := open(t, "b", ca.transport("b", "raysys://test/b"))
	p := a.connect(b)
	ln, err := ca.transport("x", "raysys://test/x").Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan uint8, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			if kind, _, err := link.ReadMessage(conn); err == nil {
				got <- kind
				link.WriteMessage(conn, 3, nil)
			}
			conn.Close()
		}
	}()
	to := ln.Addr().String()
	way.to.Store(&to)
	if err := p.SendBulk(kindNote, []byte("a secret")); err != nil {
		t.Fatal(err)
	}
	a.expect("down b(1): ")
	ln.Close()
	<-ended
	if len(got) > 0 {
		t.Errorf("a bulk connection for b was opened to the holder of x's certificate, with message %d", <-got)
	}
	if s := a.lines(); !strings.Contains(s[len(s)-1], "certificate is of node x") {
		t.Errorf("the session's end does not say whose certificate it was: %q", s[len(s)-1])
	}
}

// TestBulkUnderAnothersCertificate: the accepting side takes a session's bulk connection only from the session's node, by its
// certificate, though another knows the session.
func TestBulkUnderAnothersCertificate(t *testing.T) {
	ca := newAuthority(t)
	b := open(t, "b", ca.transport("b", "raysys://test/b"))
	dial := func(tr link.Transport) net.Conn {
		t.Helper()
		conn, err := tr.Dial(t.Context(), b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	x := ca.transport("x", "raysys://test/x")
	h := greeting()
	shake(t, dial(x), h)
	b.expect("up x(1)")
	hello := link.BulkHello{Cluster: "test", From: "x", To: "b", Incarnation: 1, Session: h.Session}.Append(nil)
	thief := dial(ca.transport("y", "raysys://test/y"))
	link.WriteMessage(thief, 4, hello)
	if kind, _, err := link.ReadMessage(thief); kind != 2 || err != nil {
		t.Errorf("the holder of y's certificate took over x's bulk connection: message %d, %v", kind, err)
	}
	own := dial(x)
	link.WriteMessage(own, 4, hello)
	if kind, _, err := link.ReadMessage(own); kind != 3 || err != nil {
		t.Errorf("x itself could not open it afterwards: message %d, %v", kind, err)
	}
}
