package wire_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
)

// clock is the least a turn needs of a runtime.
type clock struct{ w *wheel.Wheel }

func (c clock) Now() int64                    { return c.w.Now() }
func (c clock) SetAlarm(a *core.Alarm)        { c.w.Set(a) }
func (c clock) ClearAlarm(a *core.Alarm) bool { return c.w.Clear(a) }
func (c clock) Block(*core.Turn)              {}
func (c clock) Unblock(*core.Turn)            {}

var tenant = raysys.NewContextKey[string]("wire_test.tenant")

// pair is two nodes: what one opens, the other knows.
type pair struct {
	t      *testing.T
	job    *core.Job
	scopes wire.Scopes
	turns  wire.Turns
	mu     sync.Mutex
	sent   []wire.Kind
	hold   bool // keep requests back, so that control overtakes them
	held   [][]byte
}

func newPair(t *testing.T) *pair {
	w := wheel.New()
	t.Cleanup(w.Stop)
	p := &pair{t: t}
	side := func(node raysys.NodeID) *core.Job {
		j := &core.Job{ID: core.SeededJob(1), Namespace: "test", Node: node, Runtime: clock{w}}
		j.Top = core.NewRoot(j, context.Background(), nil, raysys.TaskID(j.ID))
		return j
	}
	p.job = side("a")
	p.job.Weight = 3
	remote := side("b")
	p.turns.Job = func(k wire.JobKey) *core.Job {
		if k != (wire.JobKey{ID: p.job.ID, Run: p.job.Run, Namespace: "test", Weight: 3}) {
			t.Errorf("job %v", k)
		}
		return remote
	}
	p.scopes.Send = func(class wire.Class, kind wire.Kind, b []byte) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sent = append(p.sent, kind)
		frame := append([]byte(nil), b...)
		if p.hold && class == wire.Requests {
			p.held = append(p.held, frame)
			return nil
		}
		p.deliver(kind, frame)
		return nil
	}
	return p
}

func (p *pair) deliver(kind wire.Kind, frame []byte) {
	var err error
	switch kind {
	case wire.KindOpen:
		err = p.turns.Opened(frame)
	case wire.KindShut:
		err = p.turns.Shut(frame)
	case wire.KindCancelTurn:
		err = p.turns.Cancelled(frame)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func (p *pair) count(kind wire.Kind) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.sent {
		if k == kind {
			n++
		}
	}
	return n
}

func (p *pair) driver(ctx context.Context, n uint64) *core.Turn {
	return core.NewRoot(p.job, ctx, p.job.Top, raysys.TaskID(p.job.ID).Child(n))
}

func TestScopeCarriesTheTurn(t *testing.T) {
	p := newPair(t)
	ctx, cancel := context.WithTimeout(tenant.With(context.Background(), "blue"), time.Hour)
	defer cancel()
	turn := p.driver(ctx, 1)
	id, err := p.scopes.Open(turn)
	if err != nil {
		t.Fatal(err)
	}
	got := p.turns.Turn(id)
	if got == nil {
		t.Fatal("the other side does not know the turn")
	}
	if got.ID() != turn.ID() || got.Name() != turn.Name() || got.Job().Node != "b" {
		t.Errorf("%v %q on %s", got.ID(), got.Name(), got.Job().Node)
	}
	if v, ok := tenant.From(core.HookContext(got)); v != "blue" || !ok {
		t.Errorf("the declared value is %q", v)
	}
	left := time.Duration(got.Until() - got.Runtime().Now())
	if left > time.Hour || left < 59*time.Minute {
		t.Errorf("%v are left of an hour", left)
	}
}

func TestScopeOpensOnce(t *testing.T) {
	p := newPair(t)
	turn := p.driver(context.Background(), 1)
	a, _ := p.scopes.Open(turn)
	b, _ := p.scopes.Open(turn)
	p.scopes.Shut(a)
	p.scopes.Shut(b)
	c, _ := p.scopes.Open(turn) // idle, and still known
	if a != b || b != c || p.count(wire.KindOpen) != 1 || p.count(wire.KindShut) != 0 {
		t.Error(a, b, c, p.sent)
	}
	p.scopes.Shut(c)
	turn.End()
	d, _ := p.scopes.Open(turn)
	p.scopes.Shut(d)
	if p.count(wire.KindShut) != 1 || p.turns.Turn(d) != nil {
		t.Error("a turn that has ended is still known:", p.sent)
	}
}

// TestScopesAreBounded: the peer forgets the turns that had nothing to do for longest.
func TestScopesAreBounded(t *testing.T) {
	p := newPair(t)
	for i := range uint64(1000) {
		id, err := p.scopes.Open(p.driver(context.Background(), i))
		if err != nil {
			t.Fatal(err)
		}
		p.scopes.Shut(id)
	}
	if open := p.count(wire.KindOpen) - p.count(wire.KindShut); open > 256 {
		t.Errorf("%d turns are remembered", open)
	}
}

// TestBusyScopeStays: a turn that has work at the peer again is not forgotten, however many come and go meanwhile.
func TestBusyScopeStays(t *testing.T) {
	p := newPair(t)
	turn := p.driver(context.Background(), 5000)
	again := func() uint32 {
		id, err := p.scopes.Open(turn)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := again()
	p.scopes.Shut(id)
	if again() != id {
		t.Error("it has another number")
	}
	others := func() {
		for i := range uint64(600) {
			other, err := p.scopes.Open(p.driver(context.Background(), i))
			if err != nil {
				t.Fatal(err)
			}
			p.scopes.Shut(other)
		}
	}
	others()
	if again() != id || p.turns.Turn(id) == nil {
		t.Error("a busy turn was forgotten")
	}
	p.scopes.Shut(id)
	p.scopes.Shut(id)
	if again() != id {
		t.Error("the turn that had work last was forgotten")
	}
	p.scopes.Shut(id)
	others()
	if p.turns.Turn(id) != nil {
		t.Error("a turn that has had nothing to do for longest is still known")
	}
}

func TestScopeCancel(t *testing.T) {
	for _, early := range []bool{false, true} {
		p := newPair(t)
		p.hold = early
		cause := errors.New("bye")
		ctx, cancel := context.WithCancelCause(context.Background())
		turn := p.driver(ctx, 1)
		id, err := p.scopes.Open(turn)
		if err != nil {
			t.Fatal(err)
		}
		turn.Cancel(cause)
		cancel(nil)
		for _, f := range p.held { // the control frame was faster
			p.deliver(wire.KindOpen, f)
		}
		got := p.turns.Turn(id)
		if got == nil {
			t.Fatal("the turn is unknown")
		}
		if err := got.Cancelled(); !errors.Is(err, raysys.ErrCancelled) || err.Error() != turn.Cancelled().Error() {
			t.Errorf("overtaken %v: %v, want %v", early, err, turn.Cancelled())
		}
	}
}

func TestScopeOfAnEndedTurn(t *testing.T) {
	p := newPair(t)
	turn := p.driver(context.Background(), 1)
	turn.Cancel(raysys.ErrCancelled)
	if _, err := p.scopes.Open(turn); !errors.Is(err, raysys.ErrCancelled) {
		t.Error(err)
	}
	if n := p.count(wire.KindOpen) - p.count(wire.KindShut); n != 0 {
		t.Errorf("%d turns stay open", n)
	}
}

func TestScopesEndWithThePeer(t *testing.T) {
	p := newPair(t)
	turn := p.driver(context.Background(), 1)
	id, _ := p.scopes.Open(turn)
	got := p.turns.Turn(id)
	p.scopes.Close(raysys.ErrNotDelivered)
	p.turns.Close(raysys.ErrCancelled)
	if got.Cancelled() == nil {
		t.Error("work of a node that is gone goes on")
	}
	if _, err := p.scopes.Open(turn); !errors.Is(err, raysys.ErrNotDelivered) {
		t.Error(err)
	}
	turn.Cancel(raysys.ErrCancelled) // nobody watches any more
	if n := p.count(wire.KindCancelTurn); n != 0 {
		t.Errorf("%d cancellations to a peer that is gone", n)
	}
}

// TestTurnsAreBounded: a peer that opens more turns than its calls may be is refused.
func TestTurnsAreBounded(t *testing.T) {
	p := newPair(t)
	turn := p.driver(context.Background(), 1)
	spec := core.RemoteSpec{Job: turn.Job(), Name: "task", Attempt: 1}
	frame, err := wire.AppendRemote(binary.AppendUvarint(nil, 1<<30), &spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.turns.Opened(frame); err != nil {
		t.Fatal(err)
	}
	p.turns.Fill()
	if err := p.turns.Opened(frame); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// TestShortTurn: a turn of which something is missing is corrupt.
func TestShortTurn(t *testing.T) {
	spec := core.RemoteSpec{Job: &core.Job{Namespace: "ns", Run: 300}, Name: "task", Attempt: 1, Callers: []raysys.TaskID{{Lo: 5}}}
	frame, err := wire.AppendRemote(nil, &spec)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(frame) + 1 {
		r := wire.NewReader(frame[:n])
		got, err := wire.ReadTurn(&r, func(k wire.JobKey) *core.Job { return &core.Job{Namespace: k.Namespace, Run: k.Run} })
		switch {
		case n < len(frame) && !errors.Is(err, wire.ErrCorrupt):
			t.Errorf("%d bytes of it: %v", n, err)
		case n == len(frame) && (err != nil || len(got.Callers) != 1 || got.Job.Run != 300):
			t.Errorf("all of it: %+v, %v", got, err)
		}
	}
}

func FuzzTurn(f *testing.F) {
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := wheel.New()
		defer w.Stop()
		j := &core.Job{Runtime: clock{w}}
		s := wire.Turns{Job: func(wire.JobKey) *core.Job { return j }}
		_ = s.Opened(b)
		_ = s.Cancelled(b)
		_ = s.Shut(b)
	})
}

// TestSecondType: a value of a second key of a name, of another type, is refused, as is one under a name of raysys itself.
func TestSecondType(t *testing.T) {
	for _, ctx := range []context.Context{
		raysys.NewContextKey[int]("wire_test.tenant").With(t.Context(), 1),
		raysys.NewContextKey[[]byte](core.TraceKey).With(t.Context(), []byte("00")),
	} {
		p := newPair(t)
		_, err := wire.AppendTurn(nil, core.NewRoot(p.job, ctx, nil, raysys.TaskID(p.job.ID)))
		if !errors.Is(err, raysys.ErrEncode) {
			t.Errorf("%v", err)
		}
	}
}
