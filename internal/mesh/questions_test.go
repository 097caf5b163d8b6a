package mesh_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

const kind = wire.KindAdmin

// sent is a frame on its way.
type sent struct {
	class wire.Class
	kind  wire.Kind
	large bool
	frame []byte
}

// conn keeps what is sent, or refuses it.
type conn struct {
	mu      sync.Mutex // guards the rest
	frames  []sent
	refuses error // nil takes everything
	limit   int   // of a frame, 0 for none
}

func (c *conn) Send(class wire.Class, kind wire.Kind, frame []byte) error {
	return c.put(sent{class, kind, false, append([]byte(nil), frame...)})
}

func (c *conn) SendLarge(kind wire.Kind, frame []byte) error {
	return c.put(sent{0, kind, true, frame})
}

func (c *conn) Flush() {}

func (c *conn) put(s sent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.refuses != nil:
		return c.refuses
	case c.limit > 0 && len(s.frame) > c.limit:
		return fmt.Errorf("%w: %w", raysys.ErrNotDelivered, raysys.ErrTooLarge) // as a peer has it
	}
	c.frames = append(c.frames, s)
	return nil
}

func (c *conn) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = err
}

// take returns the oldest frame.
func (c *conn) take(t *testing.T) sent {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frames) == 0 {
		t.Fatal("nothing was sent")
	}
	f := c.frames[0]
	c.frames = c.frames[1:]
	return f
}

// end is one end of a connection; what it was told to do later waits in late.
type end struct {
	conn
	calls mesh.Questions
	late  []func()
}

func newEnd() *end {
	e := &end{}
	e.calls.Start(&e.conn, func(f func()) { e.late = append(e.late, f) })
	return e
}

// outcome is what done of a call got.
type outcome struct {
	text  string
	err   error
	times int
}

func (e *end) ask(class wire.Class, text string) *outcome {
	o := &outcome{}
	mesh.Ask(&e.calls, class, kind, func(dst []byte) []byte { return wire.AppendBytes(dst, text) },
		func(r *wire.Reader) (string, error) { return r.String(), nil },
		func(s string, err error) { o.text, o.err, o.times = s, err, o.times+1 })
	return o
}

// serve has the frame handled that asker sent.
func (e *end) serve(t *testing.T, f sent, handler func(text string, to mesh.Reply)) error {
	t.Helper()
	return e.calls.Serve(f.class, f.frame, func(r *wire.Reader, to mesh.Reply) error {
		text := r.String()
		if err := r.Err(); err != nil {
			return err
		}
		handler(text, to)
		return nil
	})
}

// TestCall: each end that a call can have reaches done once, and says what the caller has to know.
func TestCall(t *testing.T) {
	t.Run("answered", func(t *testing.T) {
		for class, back := range map[wire.Class]wire.Class{wire.Requests: wire.Replies, wire.Control: wire.Control} {
			a, b := newEnd(), newEnd()
			o := a.ask(class, "how")
			f := a.take(t)
			if f.class != class || f.kind != kind {
				t.Errorf("the question went as %v", f)
			}
			if err := b.serve(t, f, func(text string, to mesh.Reply) { to.Send(wire.AppendBytes(to.Head(), text+"?")) }); err != nil {
				t.Fatal(err)
			}
			r := b.take(t)
			if r.kind != wire.KindAnswer || r.class != back {
				t.Errorf("the answer to a call of class %d came as kind %d of class %d, want class %d", class, r.kind, r.class, back)
			}
			for range 2 { // a frame may come twice
				if err := a.calls.Answered(r.frame); err != nil {
					t.Fatal(err)
				}
			}
			a.calls.Close(errors.New("later"))
			if o.text != "how?" || o.err != nil || o.times != 1 {
				t.Errorf("%+v; want the answer, once", o)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		a, b := newEnd(), newEnd()
		o := a.ask(wire.Requests, "may I")
		if err := b.serve(t, a.take(t), func(_ string, to mesh.Reply) { to.Done(fmt.Errorf("%w: no", raysys.ErrNoCapacity)) }); err != nil {
			t.Fatal(err)
		}
		if err := a.calls.Answered(b.take(t).frame); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(o.err, raysys.ErrNoCapacity) || mesh.Undelivered(o.err) || mesh.Unknown(o.err) || o.times != 1 {
			t.Errorf("%+v; want the peer's own error, once", o)
		}
	})
	t.Run("not sent", func(t *testing.T) {
		for _, refusal := range []error{raysys.ErrOverloaded, raysys.ErrNotDelivered, raysys.ErrTooLarge} {
			a := newEnd()
			a.refuse(refusal)
			o := a.ask(wire.Requests, "x")
			a.calls.Close(errors.New("later"))
			if !mesh.Undelivered(o.err) || mesh.Unknown(o.err) || !errors.Is(o.err, refusal) || o.times != 1 {
				t.Errorf("%v: %+v; want that it was not delivered, once", refusal, o)
			}
		}
	})
	t.Run("after the end", func(t *testing.T) {
		a := newEnd()
		a.calls.Close(errors.New("over"))
		if o := a.ask(wire.Requests, "x"); !mesh.Undelivered(o.err) || mesh.Unknown(o.err) || o.times != 1 || len(a.frames) != 0 {
			t.Errorf("%+v, %d frames; want that it was not delivered, once", o, len(a.frames))
		}
	})
	t.Run("the connection ends", func(t *testing.T) {
		a, b := newEnd(), newEnd()
		o := a.ask(wire.Requests, "x")
		if n := a.calls.Pending(kind); n != 1 {
			t.Errorf("%d calls are pending, want 1", n)
		}
		cause := errors.New("reset")
		a.calls.Close(cause)
		if mesh.Undelivered(o.err) || !mesh.Unknown(o.err) || !errors.Is(o.err, cause) || o.times != 1 {
			t.Errorf("%+v; want that its outcome is unknown, once", o)
		}
		if err := b.serve(t, a.take(t), func(_ string, to mesh.Reply) { to.Done(nil) }); err != nil {
			t.Fatal(err)
		}
		if err := a.calls.Answered(b.take(t).frame); err != nil || o.times != 1 {
			t.Errorf("a late answer: %v, %+v; want that nobody hears of it", err, o)
		}
		if n := a.calls.Pending(kind); n != 0 {
			t.Errorf("%d calls are pending, want none", n)
		}
	})
}

// TestCallCorrupt: a question or an answer that cannot be is an error for whoever reads the connection; who asked hears too.
func TestCallCorrupt(t *testing.T) {
	a, b := newEnd(), newEnd()
	o := a.ask(wire.Requests, "x")
	slot := a.take(t).frame[:1]
	if err := b.calls.Serve(wire.Requests, nil, nil); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("a question without a slot: %v", err)
	}
	if err := b.serve(t, sent{frame: append(slot[:1:1], 9)}, nil); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("a question cut short: %v", err)
	}
	for what, frame := range map[string][]byte{
		"nothing": nil, "no shape": slot, "an unknown shape": append(slot[:1:1], 9), "half an error": append(slot[:1:1], 1),
	} {
		if err := a.calls.Answered(frame); !errors.Is(err, wire.ErrCorrupt) || o.times != 0 {
			t.Errorf("%s as an answer: %v, %+v; want that it is corrupt, and the call goes on", what, err, o)
		}
	}
	if err := a.calls.Answered(append(slot[:1:1], 0, 200)); !errors.Is(err, wire.ErrCorrupt) || !errors.Is(o.err, wire.ErrCorrupt) || o.times != 1 {
		t.Errorf("half an answer: %v, %+v; want that both hear, once", err, o)
	}
}

// TestReply: answers of any size arrive, if not at once; one that no frame holds is an error for who asked.
func TestReply(t *testing.T) {
	a, b := newEnd(), newEnd()
	large := strings.Repeat("x", wire.InlineLimit+1)
	answer := func(text string, class func(mesh.Reply) mesh.Reply) {
		if err := b.serve(t, a.take(t), func(_ string, to mesh.Reply) { class(to).Send(wire.AppendBytes(to.Head(), text)) }); err != nil {
			t.Fatal(err)
		}
	}
	same := func(to mesh.Reply) mesh.Reply { return to }

	o := a.ask(wire.Requests, large)
	if !a.frames[0].large {
		t.Error("a large question did not take the bulk connection")
	}
	b.refuse(raysys.ErrOverloaded)
	answer(large, same)
	if len(b.late) != 1 {
		t.Fatalf("%d answers wait for the connection, want 1", len(b.late))
	}
	b.refuse(nil)
	b.late[0]()
	f := b.take(t)
	if err := a.calls.Answered(f.frame); err != nil || !f.large || o.text != large || o.times != 1 {
		t.Errorf("a large answer that had to wait: %v, large %v, %d bytes, %v", err, f.large, len(o.text), o.err)
	}

	o = a.ask(wire.Requests, "x")
	answer("behind", mesh.Reply.Behind)
	if f := b.take(t); f.class != wire.Requests || a.calls.Answered(f.frame) != nil || o.text != "behind" {
		t.Errorf("an answer behind the requests: class %d, %+v", f.class, o)
	}

	o = a.ask(wire.Requests, "x")
	b.limit = 1000
	answer(large, same)
	if err := a.calls.Answered(b.take(t).frame); err != nil || !errors.Is(o.err, raysys.ErrTooLarge) || mesh.Undelivered(o.err) || o.times != 1 {
		t.Errorf("an answer that no frame holds: %v, %+v; want raysys.ErrTooLarge, and not that the question was not delivered", err, o.err)
	}
}
