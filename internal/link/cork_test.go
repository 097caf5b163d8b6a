package link_test

import (
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// TestCork: what is sent under a cork leaves with the last of them, or with whoever flushes before.
func TestCork(t *testing.T) {
	bubble(t, func(t *testing.T, _ *linktest.Network, _, b *end, p *link.Peer) {
		sent := 0
		send := func() {
			t.Helper()
			if err := p.Send(wire.Requests, kindNote, []byte("note")); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		came := func(n int) {
			t.Helper()
			synctest.Wait()
			if got := b.count("a requests: note"); got != n {
				t.Errorf("%d notes came, not %d", got, n)
			}
		}
		for _, flush := range []bool{false, true} {
			p.Cork()
			send()
			send()
			came(sent - 2)
			p.Uncork(flush)
			came(sent)
			send() // corks leave nothing behind
			came(sent)
		}
		p.Cork()
		p.Cork()
		send()
		p.Uncork(false) // who goes sees to what there is
		came(sent)
		send() // and the other to the rest
		came(sent - 1)
		p.Uncork(false)
		came(sent)
		p.Cork()
		p.Cork()
		send()
		p.Uncork(true)
		came(sent)
		send()
		came(sent - 1)
		p.Flush()
		came(sent)
		p.Uncork(false)
		p.Cork()
		p.Uncork(true) // nothing to do
		send()
		came(sent)
	})
}

// TestCorkInHandler: what a handler sends leaves when it has returned, corks or not.
func TestCorkInHandler(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		for _, flush := range []bool{false, true} {
			a := open(t, "a", transport("a"))
			b := open(t, "b", transport("b"), func(c *link.Config) {
				c.Handlers[kindEcho] = func(p *link.Peer, _ wire.Class, b []byte) {
					p.Cork()
					p.Send(wire.Replies, kindNote, b)
					p.Uncork(flush)
				}
			})
			p := a.connect(b)
			p.Cork()
			if err := p.Send(wire.Requests, kindEcho, []byte("x")); err != nil {
				t.Fatal(err)
			}
			p.Uncork(flush)
			a.expect("b replies: x")
			a.Close(t.Context())
			b.Close(t.Context())
		}
	})
}
