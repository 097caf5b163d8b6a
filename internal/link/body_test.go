package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

const kindBody wire.Kind = 91

// landing keeps one body.
type landing struct {
	to     *landings
	head   string
	memory []byte
	err    error
	over   chan struct{} // closed by Landed
}

func (l *landing) Memory() []byte { return l.memory }

func (l *landing) Landed(err error) {
	l.err = err
	close(l.over)
	l.to.came <- l
}

// landings is a sink that keeps what it is given; heads that begin with "skip" it does not want.
type landings struct {
	began, came chan *landing
}

func (s *landings) sink(_ *link.Peer, head []byte, size int) link.Landing {
	if bytes.HasPrefix(head, []byte("skip")) {
		return nil
	}
	l := &landing{to: s, head: string(head), memory: make([]byte, size), over: make(chan struct{})}
	s.began <- l
	return l
}

// into makes s the sink. Its channels are made here: in a bubble, they must be the bubble's.
func (s *landings) into(c *link.Config) {
	if s.came == nil {
		s.began, s.came = make(chan *landing, 1000), make(chan *landing, 1000)
	}
	c.Sinks = map[wire.Kind]link.Sink{kindBody: s.sink}
}

func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

func file(t testing.TB, b []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spilled")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// eachWay runs a test over TCP, TLS and in memory.
func eachWay(t *testing.T, f func(t *testing.T, transport func(raysys.NodeID) link.Transport)) {
	each(t, f)
	t.Run("tls", func(t *testing.T) {
		ca := newAuthority(t)
		f(t, func(n raysys.NodeID) link.Transport { return ca.transport(string(n), "raysys://test/"+string(n)) })
	})
}

// TestBodies: pieces and sections of a file arrive in the memory that the sink gave, in order with frames that have no
// body; what it does not want is skipped, and each body is released once.
func TestBodies(t *testing.T) {
	eachWay(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		got := &landings{}
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), got.into)
		p := a.connect(b)
		var released atomic.Int32
		release := func(err error) {
			if err != nil {
				t.Error(err)
			}
			released.Add(1)
		}
		all := noise(1, 3<<20)
		f := file(t, all)
		sent := 0
		send := func(head string, body link.Body) {
			t.Helper()
			body.Release = release
			if err := p.SendBody(kindBody, []byte(head), body); err != nil {
				t.Fatal(head, err)
			}
			sent++
		}
		send("one piece", link.Body{Pieces: [][]byte{all[:1<<20]}})
		send("skip this", link.Body{Pieces: [][]byte{all[:1<<20]}})
		send("", link.Body{Pieces: [][]byte{all[:1], nil, all[1:2], all[2 : 1<<20], all[1<<20 : 1<<20+5]}})
		var pieces [][]byte // short and long ones, together all[:1<<20]
		for at, n := 0, 1; at < 1<<20; n = (n*7 + 3) % 40_000 {
			end := min(at+n, 1<<20)
			pieces = append(pieces, all[at:end])
			at = end
		}
		send("many pieces", link.Body{Pieces: pieces})
		send("nothing", link.Body{})
		if err := p.SendBulk(kindNote, bytes.Repeat([]byte("x"), 1000)); err != nil {
			t.Fatal(err)
		}
		send("section", link.Body{File: f, Offset: 12345, Length: 1<<20 + 77})
		send("skip section", link.Body{File: f, Length: 100})
		send("no section", link.Body{File: f, Offset: 5})
		for i := range 20 { // of one file, from many offsets
			send(fmt.Sprint(i), link.Body{File: f, Offset: int64(i * 1000), Length: 300_000 + i})
		}
		check := func(head string, want []byte) {
			t.Helper()
			l := <-got.came
			if l.err != nil || l.head != head || !bytes.Equal(l.memory, want) {
				t.Errorf("%q came as %q with %d bytes: %v", head, l.head, len(l.memory), l.err)
			}
		}
		check("one piece", all[:1<<20])
		check("", all[:1<<20+5])
		check("many pieces", all[:1<<20])
		check("nothing", nil)
		b.expect("a bulk: 1000 bytes")
		check("section", all[12345:12345+1<<20+77])
		check("no section", nil)
		for i := range 20 {
			check(fmt.Sprint(i), all[i*1000:i*1000+300_000+i])
		}
		if n := b.Peer("a").Stats(); n.In[wire.Bulk].Frames != uint64(sent+1) || n.Unknown != 0 {
			t.Errorf("%d frames were counted and %d unknown", n.In[wire.Bulk].Frames, n.Unknown)
		}
		a.Close(context.Background()) // waits for the writer, which releases after it wrote
		if n := released.Load(); n != int32(sent) {
			t.Errorf("%d of %d bodies were released", n, sent)
		}
	})
}

// TestBodyFileGone: a section that cannot be read arrives as zeros, the sender is told, and the session goes on.
func TestBodyFileGone(t *testing.T) {
	eachWay(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		got := &landings{}
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), got.into)
		p := a.connect(b)
		f := file(t, []byte("short"))
		why := make(chan error, 2)
		tell := func(err error) { why <- err }
		p.SendBody(kindBody, []byte("short"), link.Body{File: f, Length: 100_000, Release: tell})
		closed := file(t, []byte("closed"))
		closed.Close()
		p.SendBody(kindBody, []byte("closed"), link.Body{File: closed, Length: 6, Release: tell})
		p.SendBody(kindBody, []byte("good"), link.Body{Pieces: [][]byte{[]byte("good")}})
		for _, c := range []struct {
			want   []byte
			reason error
		}{
			{append([]byte("short"), make([]byte, 99_995)...), io.ErrUnexpectedEOF},
			{make([]byte, 6), os.ErrClosed},
			{[]byte("good"), nil},
		} {
			if l := <-got.came; l.err != nil || !bytes.Equal(l.memory, c.want) {
				t.Errorf("%q came with %d bytes: %v", l.head, len(l.memory), l.err)
			}
			if c.reason != nil {
				if err := <-why; !errors.Is(err, c.reason) {
					t.Error(err)
				}
			}
		}
	})
}

// TestBodyRefused: what may not be sent is refused with a typed error, and nothing is released that was not taken.
func TestBodyRefused(t *testing.T) {
	released := func(error) { t.Error("released") }
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		if err := p.SendBody(kindBody, make([]byte, link.MaxHead+1), link.Body{Release: released}); !errors.Is(err, raysys.ErrTooLarge) {
			t.Error(err)
		}
		if err := p.SendBody(kindBody, []byte("x"), link.Body{Pieces: [][]byte{make([]byte, p.MaxBulk()-1)}, Release: released}); !errors.Is(err, raysys.ErrTooLarge) {
			t.Error(err)
		}
		if err := p.SendBody(kindBody, nil, link.Body{File: os.Stdin, Length: -1, Release: released}); !errors.Is(err, raysys.ErrTooLarge) {
			t.Error(err)
		}
		if err := p.SendBody(5, nil, link.Body{Release: released}); err == nil {
			t.Error("a kind of the link was taken")
		}
		p.Close(nil)
		if err := p.SendBody(kindBody, nil, link.Body{Release: released}); !errors.Is(err, raysys.ErrNotDelivered) {
			t.Error(err)
		}
	})
}

// TestBodiesLost: when the session ends, each body that waits is released with the reason, whether its connection was
// made or not, and a landing under way learns of it before Down.
func TestBodiesLost(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprint("open ", open), func(t *testing.T) {
			got := &landings{}
			bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
				if open {
					p.SendBulk(kindNote, []byte("x"))
					b.expect("a bulk: x")
					n.CutOneWay("a", "b")
				} else {
					n.Shut(b.Addr())
				}
				var released []error
				var mu sync.Mutex
				for range 20 {
					err := p.SendBody(kindBody, nil, link.Body{Pieces: [][]byte{make([]byte, 1<<20)}, Release: func(err error) {
						mu.Lock()
						released = append(released, err)
						mu.Unlock()
					}})
					if err != nil {
						t.Fatal(err)
					}
				}
				pass(time.Second)
				n.HealAll()
				n.Reset("a", "b")
				<-p.Done()
				synctest.Wait()
				if len(released) < 19 { // one may have been written
					t.Errorf("%d of 20 bodies were released", len(released))
				}
				for _, err := range released {
					if err == nil {
						t.Error("a body that was not written was released without a reason")
					}
				}
			}, got.into)
		})
	}
	got := &landings{}
	var lost chan struct{} // the body waits for it where it lands
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		p.SendBody(kindBody, nil, link.Body{Pieces: [][]byte{noise(1, 1<<20)}})
		l := <-got.began
		n.Reset("a", "b")
		close(lost)
		<-l.over
		if !errors.Is(l.err, link.ErrReset) {
			t.Error(l.err)
		}
		b.expect("down")
	}, got.into, func(c *link.Config) {
		if lost == nil {
			lost = make(chan struct{})
		}
		c.Sinks[kindBody] = func(p *link.Peer, head []byte, size int) link.Landing {
			l := got.sink(p, head, size)
			<-lost
			return l
		}
		down := c.Down
		c.Down = func(p *link.Peer, err error) {
			if p.Node() == "a" && len(got.came) == 0 {
				t.Error("down before the landing learned of it")
			}
			down(p, err)
		}
	})
}

// TestAbandon: memory is given back while its body stands still on the way, the rest of the body is skipped, and what
// follows arrives.
func TestAbandon(t *testing.T) {
	got := &landings{}
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		q := b.Peer("a")
		p.SendBulk(kindNote, []byte("x"))
		b.expect("a bulk: x")
		n.Delay("a", "b", time.Second, 0)
		p.SendBody(kindBody, []byte("1"), link.Body{Pieces: [][]byte{noise(1, 1<<20)}})
		l := <-got.began
		n.CutOneWay("a", "b")
		q.Abandon(l)
		select {
		case <-l.over:
		default:
			t.Fatal("Abandon returned before Landed")
		}
		if !errors.Is(l.err, link.ErrAbandoned) {
			t.Error(l.err)
		}
		before := bytes.Clone(l.memory)
		q.Abandon(l) // nothing
		p.SendBody(kindBody, []byte("2"), link.Body{Pieces: [][]byte{[]byte("after")}})
		n.HealAll()
		if l := <-got.came; l.head != "1" {
			t.Error(l.head)
		}
		if next := <-got.came; next.head != "2" || string(next.memory) != "after" || next.err != nil {
			t.Error(next.head, next.err)
		}
		if !bytes.Equal(before, l.memory) {
			t.Error("the memory was written to after Abandon")
		}
		if p.Err() != nil {
			t.Error(p.Err())
		}
	}, got.into)
}

// TestAbandonRaces: whatever moment Abandon finds, the connection stays in step.
func TestAbandonRaces(t *testing.T) {
	eachWay(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		got := &landings{}
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), got.into)
		p := a.connect(b)
		b.expect("up a")
		q := b.Peer("a")
		const bodies = 100
		all := noise(3, 200_000)
		go func() {
			for i := range bodies {
				p.SendBody(kindBody, fmt.Append(nil, i), link.Body{Pieces: [][]byte{all}})
			}
		}()
		whole := 0
		for i := range bodies {
			l := <-got.began
			if i%3 != 0 {
				q.Abandon(l)
			}
			<-l.over
			switch {
			case l.head != fmt.Sprint(i):
				t.Fatalf("body %d came as %q", i, l.head)
			case l.err == nil:
				whole++
				if !bytes.Equal(l.memory, all) {
					t.Fatalf("body %d came changed", i)
				}
			case !errors.Is(l.err, link.ErrAbandoned):
				t.Fatal(l.err)
			}
		}
		if whole < bodies/3 {
			t.Errorf("%d of %d bodies arrived", whole, bodies)
		}
	})
}

// TestBodyChaos: frames with bodies are dropped and doubled as others are, and released once.
func TestBodyChaos(t *testing.T) {
	got := &landings{}
	n := 0
	bubble(t, func(t *testing.T, _ *linktest.Network, a, b *end, p *link.Peer) {
		released := make(chan int, 10)
		for i := range 3 {
			p.SendBody(kindBody, fmt.Append(nil, i), link.Body{Pieces: [][]byte{[]byte("x")}, Release: func(error) { released <- i }})
		}
		synctest.Wait()
		var heads []string
		for range len(got.came) {
			heads = append(heads, (<-got.came).head)
		}
		if diff := cmp.Diff([]string{"1", "1", "2"}, heads); diff != "" {
			t.Error(diff)
		}
		if len(released) != 3 {
			t.Errorf("%d releases of 3 bodies", len(released))
		}
	}, got.into, func(c *link.Config) {
		c.Chaos = func(_ raysys.NodeID, _ wire.Class, k wire.Kind) link.Action {
			if k != kindBody {
				return link.Pass
			}
			n++
			return []link.Action{link.Drop, link.Duplicate, link.Reorder}[n-1]
		}
	})
}

// TestBodiesAside: bodies that wait do not make a bulk frame overload, and are bounded themselves.
func TestBodiesAside(t *testing.T) {
	got := &landings{}
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		n.Cut("a", "b")
		var err error
		sent := 0
		for ; err == nil && sent < 1000; sent++ {
			err = p.SendBody(kindBody, nil, link.Body{Pieces: [][]byte{make([]byte, 1<<20)}})
		}
		if !errors.Is(err, raysys.ErrOverloaded) || sent < 60 {
			t.Error(sent, err)
		}
		if err := p.SendBulk(kindNote, []byte("an argument")); err != nil {
			t.Error(err)
		}
		n.HealAll()
		synctest.Wait()
		b.expect("a bulk: an argument")
		if n := p.Waiting(wire.Bulk); n != 0 || len(got.came) < sent-1 {
			t.Error(n, "bytes wait still;", len(got.came), "of", sent-1, "bodies came")
		}
	}, got.into)
}

// TestHostileBodies: each ends the connection with a reason.
func TestHostileBodies(t *testing.T) {
	short := &landings{make(chan *landing, 10), make(chan *landing, 10)}
	for _, c := range []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"no head", link.Frame{Kind: kindBody, Class: wire.Bulk, Flags: 1}.Append(nil), link.ErrCorrupt},
		{"head beyond frame", link.Frame{Kind: kindBody, Class: wire.Bulk, Flags: 1, Payload: "\x05abc"}.Append(nil), link.ErrCorrupt},
		{"cut off", link.BodyFrame(kindBody, "head", "body")[:14], link.ErrReset},
		{"cut off in the body", link.BodyFrame(kindBody, "head", "body")[:15], link.ErrReset},
		{"oversize", []byte{255, 255, 255, 255, byte(kindBody), byte(wire.Bulk), 1, 0}, link.ErrCorrupt},
		{"sink panics", link.BodyFrame(92, "", "x"), link.ErrHandler},
		{"landed panics", link.BodyFrame(93, "", "x"), link.ErrHandler},
		{"wrong memory", link.BodyFrame(94, "", "x"), link.ErrHandler},
		{"unknown kind is skipped", append(link.BodyFrame(95, "a", "b"), link.BodyFrame(92, "", "x")...), link.ErrHandler},
	} {
		err := link.FeedBulk(c.bytes, nil, map[wire.Kind]link.Sink{
			kindBody: short.sink,
			92:       func(*link.Peer, []byte, int) link.Landing { panic("sink") },
			93:       func(*link.Peer, []byte, int) link.Landing { return boom{make([]byte, 1), true} },
			94:       func(*link.Peer, []byte, int) link.Landing { return boom{make([]byte, 2), false} },
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

type boom struct {
	memory []byte
	panics bool
}

func (b boom) Memory() []byte { return b.memory }

func (b boom) Landed(error) {
	if b.panics {
		panic("landed")
	}
}

// FuzzBodies: whatever comes over a bulk connection, it is taken apart as it was put together, or ends with a reason.
func FuzzBodies(f *testing.F) {
	f.Add(append(link.BodyFrame(kindBody, "a head", "and a body"), link.Frame{Kind: 40, Class: wire.Bulk, Payload: "plain"}.Append(nil)...))
	f.Add(link.BodyFrame(kindBody, "skip", "body"))
	f.Add([]byte{255, 255, 255, 255, 91, 3, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		got := &landings{make(chan *landing, len(b)), make(chan *landing, len(b))}
		err := link.FeedBulk(b, map[wire.Kind]link.Handler{40: func(_ *link.Peer, _ wire.Class, b []byte) {
			again = link.Frame{Kind: 40, Class: wire.Bulk, Payload: string(b)}.Append(again)
		}}, map[wire.Kind]link.Sink{kindBody: func(p *link.Peer, head []byte, size int) link.Landing { return got.sink(p, head, size) }})
		if !errors.Is(err, link.ErrCorrupt) && !errors.Is(err, link.ErrReset) {
			t.Error(err)
		}
		if len(again) > len(b) {
			t.Error("more came out than went in")
		}
	})
}
