package registry

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/actortest"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// elsewhere is a cluster whose one shard is led by another node, which does as it is told. It implements Members.
type elsewhere struct {
	kv    store.KV
	reg   *Registry
	asked func(request) // what that node does
	away  atomic.Bool   // the store is, and the lease out
	leads atomic.Bool   // this node is about to lead the shard
	mute  atomic.Bool   // the electors of this node are
	dead  sync.Map      // incarnations
	hosts atomic.Pointer[[]placement.Node]
	looks atomic.Uint64
	calls atomic.Pointer[mesh.Questions] // to that node

	pauses     atomic.Int64 // that are over
	aliveAsked atomic.Int64 // questions for who is alive
}

func (e *elsewhere) Self() core.NodeKey { return core.NodeKey{Node: "self", Incarnation: 1} }

func (e *elsewhere) Leader(int) (core.NodeKey, bool) {
	if e.leads.Load() {
		return e.Self(), true
	}
	return core.NodeKey{Node: "leader", Incarnation: 2}, true
}

func (e *elsewhere) Nodes() ([]placement.Node, Moment) {
	if h := e.hosts.Load(); h != nil {
		return slices.Clone(*h), Moment{}
	}
	return nil, Moment{}
}

// Since implements Members. Each look finds that the members have changed.
func (e *elsewhere) Since(Moment, func(core.NodeKey)) Moment { return Moment{Members: e.looks.Add(1)} }

func (e *elsewhere) Reported(*placement.Node) {}

func (e *elsewhere) Suspended() error {
	if e.away.Load() {
		return raysys.ErrSuspended
	}
	return nil
}

func (e *elsewhere) Promised() bool { return !e.mute.Load() }

func (e *elsewhere) Alive(k core.NodeKey) bool {
	e.aliveAsked.Add(1)
	_, dead := e.dead.Load(k)
	return !dead
}

func (e *elsewhere) Connect(_ core.NodeKey, done func(*mesh.Questions, error)) {
	done(e.calls.Load(), nil)
}

// wheelClock is a clock for a Runner. It counts the pauses that are over.
type wheelClock struct {
	*wheel.Wheel
	pauses *atomic.Int64
}

func (c wheelClock) SetAlarm(a *core.Alarm) {
	ring := a.Ring
	a.Ring = func() {
		ring()
		c.pauses.Add(1)
	}
	c.Set(a)
}

// loop is a connection whose other end is a function.
type loop func(frame []byte)

func (l loop) Send(_ wire.Class, _ wire.Kind, frame []byte) error { l(frame); return nil }
func (l loop) SendLarge(_ wire.Kind, frame []byte) error          { l(frame); return nil }
func (l loop) Flush()                                             {}

// connect makes a connection to that node, and returns the one before.
func (e *elsewhere) connect(t *testing.T, later func(func())) (before *mesh.Questions) {
	var here, leader mesh.Questions
	here.Start(loop(func(frame []byte) {
		if err := leader.Serve(wire.Requests, frame, func(in *wire.Reader, to mesh.Reply) error {
			shard := in.Uint32()
			q, err := readRequest(in)
			if err != nil {
				return err
			}
			*q.who() = asker{shard: int(shard), from: e.Self(), inbound: true}
			q.replyTo(to)
			e.asked(q)
			return nil
		}); err != nil {
			t.Errorf("the leader refuses a question: %v", err)
		}
	}), later)
	leader.Start(loop(func(frame []byte) {
		if err := here.Answered(frame); err != nil {
			t.Errorf("the leader's answer is refused: %v", err)
		}
	}), later)
	return e.calls.Swap(&here)
}

// newElsewhere returns the directory of a node that asks that leader.
func newElsewhere(t *testing.T, does func(*asked[[]Entry])) (*elsewhere, *Directory) {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	layout, err := shardlog.OpenLayout(t.Context(), kv, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{kv: kv, asked: func(q request) { does(q.(*asked[[]Entry])) }}
	w := wheel.New()
	r := runner.New(wheelClock{w, &e.pauses})
	actors := actortest.NewSystem()
	t.Cleanup(func() {
		r.End(raysys.ErrClosed)
		r.Wait()
		w.Stop()
		actors.Shutdown()
	})
	e.connect(t, r.Later)
	e.reg = New(Config{Members: e, Actors: actors, Runner: r, Layout: layout, Namespace: "test", AskBundles: func(core.NodeKey, groupengine.Ask, func(error)) {}})
	return e, NewDirectory(e.reg)
}
