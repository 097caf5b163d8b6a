package grainengine_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
)

// hoard is a durable grain whose replies are as large as the call says: eleven of 50,000 bytes fill the room.
type hoard struct{ n grains.State[int] }

const large = 50_000

type hoards struct {
	net  *fakeNet
	kind grains.Kind[hoard]
	runs *atomic.Int64
	pay  grains.Func[hoard, int, []byte]
	last grains.Func[hoard, int, []byte] // the same, and the activation ends: the note that its reply is there finds none
	sum  grains.Func0[hoard, int]
}

func newHoards(t testing.TB) *hoards {
	tb := raysys.NewTable()
	h := &hoards{net: newNet(t, tb), runs: &atomic.Int64{}}
	h.kind = grains.DefineIn[hoard](tb, "hoard", grains.Durable())
	pay := func(g *hoard, _ context.Context, size int) ([]byte, error) {
		h.runs.Add(1)
		g.n.Value++
		return make([]byte, size), nil
	}
	h.pay = grains.Method(h.kind, "pay", pay)
	h.last = grains.Method(h.kind, "last", func(g *hoard, ctx context.Context, size int) ([]byte, error) {
		b, _ := pay(g, ctx, size)
		return b, grains.Deactivate(ctx)
	})
	h.sum = grains.Method0(h.kind, "sum", func(g *hoard, _ context.Context) (int, error) { return g.n.Value, nil }).ReadOnly()
	return h
}

// kept is how many replies of a grain are stored.
func (h *hoards) kept(g grains.Grain[hoard]) int {
	h.net.store.mu.Lock()
	defer h.net.store.mu.Unlock()
	return len(h.net.store.replies[idOf(g)])
}

// fill stores n replies to the driver of ctx beside what is stored of the grain, which is not active then.
func (h *hoards) fill(t *testing.T, ctx context.Context, g grains.Grain[hoard], n int) {
	t.Helper()
	r := h.pay.Call(ctx, g, 1)
	ends1(t, ctx, r)
	h.net.store.mu.Lock()
	record := slices.Clone(h.net.store.replies[idOf(g)][r.ID()])
	h.net.store.mu.Unlock()
	if record == nil {
		t.Fatal("no reply is stored")
	}
	h.net.store.mu.Lock()
	defer h.net.store.mu.Unlock()
	h.net.store.replies[idOf(g)] = map[raysys.TaskID][]byte{}
	for i := range n {
		h.net.store.replies[idOf(g)][raysys.TaskID{Hi: 77, Lo: uint64(i)}] = record
	}
}

func ends1[T any](t testing.TB, ctx context.Context, r raysys.Ref[T]) {
	t.Helper()
	if _, err := r.Get(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestRepliesOfDriversGo: a grain whose activation ends after each call goes on taking calls, in one process and wherever its driver is.
func TestRepliesOfDriversGo(t *testing.T) {
	for name, place := range map[string]func(*fakeNet) (driver, host *fakeNode){
		"alone":               func(net *fakeNet) (_, _ *fakeNode) { n := net.addAlone("a"); return n, n },
		"the driver's node":   func(net *fakeNet) (_, _ *fakeNode) { n := net.add("a"); return n, n },
		"another node has it": func(net *fakeNet) (_, _ *fakeNode) { return net.add("a"), net.add("b") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHoards(t)
			driver, host := place(h.net)
			h.net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return host }
			ctx, g := driver.context(), h.kind.Get("x")
			const calls = 24
			for i := range calls {
				if _, err := h.last.Call(ctx, g, large).Get(ctx); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
				nodetest.Eventually(t, "the activation ends, and the note that its reply is there has left", func() bool {
					return host.engine.Activations("hoard")+grainengine.Notes(driver.engine) == 0
				})
			}
			wants(t, ctx, h.sum.Call(ctx, g), calls)
			if n := h.kept(g); n > 12 {
				t.Errorf("%d replies are kept", n)
			}
		})
	}
}

// TestFullGrainGoesOn: a grain that was full when its node was updated takes calls again, whether the driver that has the replies lives
// or not; and the calls of another driver wait for the answer.
func TestFullGrainGoesOn(t *testing.T) {
	for name, change := range map[string]func(owner *fakeNode){"it lives": func(*fakeNode) {}, "it died": (*fakeNode).kill} {
		t.Run(name, func(t *testing.T) {
			h := newHoards(t)
			a, b, c := h.net.add("a"), h.net.add("b"), h.net.add("c")
			g := h.kind.Get("x")
			h.net.put(idOf(g), b)
			h.fill(t, c.context(), g, 4096)
			h.net.put(idOf(g), a)
			change(c)
			ctx := b.context()
			calls := 1 // that of fill
			nodetest.Eventually(t, "the old replies go", func() bool {
				calls++
				ends1(t, ctx, h.pay.Call(ctx, g, 1))
				return h.kept(g) < 1000
			})
			wants(t, ctx, h.sum.Call(ctx, g), calls)
		})
	}
}

// TestSilentDriverKeepsItsReplies: of a driver whose node does not answer nothing goes. Calls are refused with a reason, and taken again once
// it answers.
func TestSilentDriverKeepsItsReplies(t *testing.T) {
	h := newHoards(t)
	a, b, c := h.net.add("a"), h.net.add("b"), h.net.add("c")
	g := h.kind.Get("x")
	h.net.put(idOf(g), b)
	h.fill(t, c.context(), g, 4096)
	h.net.put(idOf(g), a)
	h.net.mu.Lock()
	h.net.fault = func(op string, asks *fakeNode, _ graindir.ID) error {
		if op == "connect" && asks == a {
			return fmt.Errorf("%w: by test", raysys.ErrUnreachable)
		}
		return nil
	}
	h.net.mu.Unlock()
	ctx := a.context()
	for range 3 {
		nodetest.Fails(t, ctx, h.pay.Call(ctx, g, 1), raysys.ErrOverloaded)
	}
	if n := h.kept(g); n != 4096 {
		t.Errorf("%d of 4096 replies are kept", n)
	}
	h.net.mu.Lock()
	h.net.fault = nil
	h.net.mu.Unlock()
	nodetest.Eventually(t, "it takes calls", func() bool {
		_, err := h.pay.Call(ctx, g, 1).Get(ctx)
		return err == nil
	})
}

// TestReplyToAnOpenCallStays: a call counted, its answer was lost with the link, and it has not been made again yet. Its grain, which is full
// of replies, asks for it, and keeps its reply.
func TestReplyToAnOpenCallStays(t *testing.T) {
	h := newHoards(t)
	a, b, c := h.net.add("a"), h.net.add("b"), h.net.add("c")
	g := h.kind.Get("x")
	h.net.put(idOf(g), b)
	ctx, other := a.context(), c.context()
	ends1(t, ctx, h.pay.Call(ctx, g, 1)) // a knows where it is
	ends1(t, other, h.pay.Call(other, g, 1))
	p := a.Peer(core.NodeKey{Node: b.name, Incarnation: b.incarnation}).(*fakePeer)
	p.pause(true)
	r := h.pay.Call(ctx, g, large)
	nodetest.Eventually(t, "it is stored", func() bool { return h.net.store.holds(idOf(g), r.ID()) })
	let := h.net.slowly("locate")
	defer let()
	p.link.cut(errors.New("reset by test"))
	before := h.net.count("connect")
	for range 5 {
		refs := make([]raysys.Ref[[]byte], 8)
		for i := range refs {
			refs[i] = h.pay.Call(other, g, large)
		}
		for _, r := range refs {
			ends1(t, other, r)
		}
	}
	if h.net.count("connect") == before {
		t.Error("nobody was asked")
	}
	if !h.net.store.holds(idOf(g), r.ID()) {
		t.Error("the reply to a call that will be made again is gone")
	}
	let()
	ends1(t, ctx, r)
	wants(t, ctx, h.sum.Call(ctx, g), 43)
	if n := h.runs.Load(); n != 43 {
		t.Errorf("%d turns for 43 calls", n)
	}
}

func (s *fakeStore) holds(id graindir.ID, call raysys.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replies[id][call] != nil
}

// TestQuestionOfThisVersion: the frame that asks for a call, and the one that answers, are what testdata says this version writes.
func TestQuestionOfThisVersion(t *testing.T) {
	h := newHoards(t)
	a, b := h.net.add("a"), h.net.add("b")
	g := h.kind.Get("x")
	h.net.put(idOf(g), b)
	ctx := a.context()
	h.fill(t, ctx, g, 1)
	h.net.store.mu.Lock()
	for id, record := range h.net.store.replies[idOf(g)] {
		h.net.store.replies[idOf(g)][id] = append(slices.Clone(record), make([]byte, 300_000)...)
	}
	h.net.store.mu.Unlock()
	h.net.put(idOf(g), h.net.add("c"))
	asks, answers := make(chan []byte, 10), make(chan []byte, 10)
	h.net.mu.Lock()
	h.net.onWire = func(_ *fakeLink, _ *fakeNode, kind wire.Kind, frame []byte) {
		switch {
		case kind == wire.KindCallAsk:
			asks <- slices.Clone(frame)
		case kind == wire.KindCallForget && len(frame) > 30: // of two
			answers <- slices.Clone(frame)
		}
	}
	h.net.mu.Unlock()
	ends1(t, ctx, h.pay.Call(ctx, g, 1))
	ask, answer := nodetest.Arrive(t, asks, "the question"), nodetest.Arrive(t, answers, "the answer")
	for name, got := range map[string][]byte{"v1/ask.hex": ask, "v1/asked.hex": answer} {
		if want := golden.Hex(t, name, got); !slices.Equal(got, want) {
			t.Errorf("%s: %s, want %s", name, hex.EncodeToString(got), hex.EncodeToString(want))
		}
	}
}
