package taskengine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/actortest"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
)

// tasksRuntime is a node that has an engine and nothing else. It implements core.Runtime.
type tasksRuntime struct {
	t      testing.TB
	name   raysys.NodeID
	table  *raysys.Table
	engine *taskengine.Engine
	wheel  *wheel.Wheel
	pool   *goroutines.Pool
	actors *actor.ActorSystem
	job    *core.Job
	top    *core.Turn
	ending chan struct{}
	once   sync.Once
	cpus   float64
	roots  atomic.Uint64

	mu    sync.Mutex
	jobs  map[raysys.JobID]*core.Job
	peers []*end
}

func (h *tasksRuntime) Now() int64                    { return h.wheel.Now() }
func (h *tasksRuntime) SetAlarm(a *core.Alarm)        { h.wheel.Set(a) }
func (h *tasksRuntime) ClearAlarm(a *core.Alarm) bool { return h.wheel.Clear(a) }
func (h *tasksRuntime) Block(t *core.Turn)            { h.engine.Block(t) }
func (h *tasksRuntime) Unblock(t *core.Turn)          { h.engine.Unblock(t) }
func (h *tasksRuntime) Tasks() *taskengine.Engine     { return h.engine }

// newHost starts a node; cpus 0 makes it a driver. It is closed with the test.
func newHost(t testing.TB, name string, table *raysys.Table, cpus float64, change ...func(*taskengine.Config)) *tasksRuntime {
	t.Helper()
	if err := table.Freeze(); err != nil {
		t.Fatal(err)
	}
	h := &tasksRuntime{
		t: t, name: raysys.NodeID(name), table: table, wheel: wheel.New(), pool: goroutines.New(64), cpus: cpus,
		actors: actortest.NewSystem(), ending: make(chan struct{}), jobs: map[raysys.JobID]*core.Job{},
	}
	h.job = h.jobOf(wire.JobKey{ID: core.SeededJob(uint64(len(name))*1000 + uint64(name[0])), Namespace: "test"})
	cfg := taskengine.Config{
		Resources: raysys.Resources{CPU: cpus}, NoCPU: cpus == 0, Table: table, Actors: h.actors, Pool: h.pool,
		Runtime: h, Node: h.name,
		Changed: h.tell, Tell: h.tellOne,
	}
	for _, f := range change {
		f(&cfg)
	}
	h.engine = taskengine.NewEngine(cfg)
	t.Cleanup(h.close)
	return h
}

// jobOf returns this node's view of a job.
func (h *tasksRuntime) jobOf(k wire.JobKey) *core.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[k.ID]
	if j == nil {
		j = &core.Job{ID: k.ID, Namespace: k.Namespace, Node: h.name, Runtime: h, Table: h.table, Closed: h.ending}
		if h.top == nil {
			h.top = core.NewRoot(j, context.Background(), nil, raysys.TaskID(k.ID))
		}
		j.Top = h.top
		h.jobs[k.ID] = j
	}
	return j
}

// tell lets the peers know how busy the node is.
func (h *tasksRuntime) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.peers {
		_ = e.Send(wire.Control, wire.KindLoad, loadreport.AppendLoad(nil, h.engine.Load()))
	}
}

// tellOne lets one of them know.
func (h *tasksRuntime) tellOne(p wire.Peer) {
	l, _, _, _ := h.engine.Report([]wire.Peer{p})
	_ = p.Send(wire.Replies, wire.KindLoad, loadreport.AppendLoad(nil, l))
}

func (h *tasksRuntime) ctx() context.Context { return h.with(context.Background()) }

func (h *tasksRuntime) with(ctx context.Context) context.Context {
	return core.NewContext(core.NewRoot(h.job, ctx, h.top, raysys.TaskID(h.job.ID).Child(h.roots.Add(1))))
}

func (h *tasksRuntime) close() {
	h.once.Do(func() {
		close(h.ending)
		h.top.Cancel(raysys.ErrClosed)
		ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
		defer cancel()
		if err := h.engine.Close(ctx); err != nil {
			h.t.Errorf("close %s: %v", h.name, err)
		}
		h.wheel.Stop()
		h.pool.Close()
		h.actors.Shutdown()
	})
}

// fate is what happens to a frame.
type fate int

const (
	deliver fate = iota
	twice        // delivered and delivered again
	sever        // the link is cut instead
	refuse       // Send fails with ErrOverloaded
	hold         // it waits until link.release
	lose         // it never arrives
)

// link joins two nodes in memory. Frames of one class arrive in order, classes overtake each other.
type link struct {
	t    testing.TB
	ends [2]*end
	fate atomic.Pointer[func(from raysys.NodeID, c wire.Class, k wire.Kind, payload []byte) fate]

	mu      sync.Mutex // guards the rest
	down    bool
	free    chan struct{} // closed by release
	running sync.WaitGroup
	cutting sync.WaitGroup
	cutters sync.WaitGroup
}

// bulk is the class of SendLarge, beside wire's.
const bulk = wire.Requests + 1

// end is one node's side: the other node as its engine sees it.
type end struct {
	*link
	here, there        *tasksRuntime
	other              *end
	scopes             wire.Scopes
	turns              wire.Turns
	life               uint64
	queues             [bulk + 1][]frame // to other, guarded by link.mu
	conds              [bulk + 1]sync.Cond
	busy               [bulk + 1]bool // being delivered
	flushes            atomic.Int64
	corks              int          // nothing but bulk is delivered while there are any; guarded by link.mu
	open               atomic.Int64 // turns opened and not shut
	numbers            map[string]uint32
	entries            []*core.Entry
	sentExports, taken atomic.Int64                    // references: see pendingExports
	lacks              atomic.Pointer[map[string]bool] // functions the other side has not

	refs     sync.Mutex // guards the next
	exported map[uint64]*core.Future
	fetches  map[*fetch]bool
}

type frame struct {
	kind    wire.Kind
	payload []byte
	held    bool
}

var lives atomic.Uint64

// join links two nodes and tells their engines.
func join(t testing.TB, a, b *tasksRuntime) *link {
	t.Helper()
	l := &link{t: t, free: make(chan struct{})}
	for i, hs := range [][2]*tasksRuntime{{a, b}, {b, a}} {
		e := &end{link: l, here: hs[0], there: hs[1], life: lives.Add(1), numbers: map[string]uint32{}, entries: hs[0].table.Entries(), exported: map[uint64]*core.Future{}, fetches: map[*fetch]bool{}}
		for i, entry := range e.there.table.Entries() {
			e.numbers[entry.String()] = uint32(i)
		}
		e.scopes.Send = e.Send
		e.turns.Job = e.here.jobOf
		e.lacks.Store(&map[string]bool{})
		for c := range e.conds {
			e.conds[c].L = &l.mu
		}
		l.ends[i] = e
		e.here.mu.Lock()
		e.here.peers = append(e.here.peers, e)
		e.here.mu.Unlock()
	}
	l.ends[0].other, l.ends[1].other = l.ends[1], l.ends[0]
	a.engine.PeerUp(l.ends[0], taskengine.PeerInfo{Resources: raysys.Resources{CPU: b.cpus}})
	b.engine.PeerUp(l.ends[1], taskengine.PeerInfo{Resources: raysys.Resources{CPU: a.cpus}})
	for _, e := range l.ends {
		for c := range e.queues {
			l.running.Add(1)
			go e.pump(wire.Class(c))
		}
	}
	t.Cleanup(func() {
		l.cut(errors.New("the test is over"))
		l.cutters.Wait()
	})
	return l
}

// rule sets what happens to frames from now on.
func (l *link) rule(f func(from raysys.NodeID, c wire.Class, k wire.Kind, payload []byte) fate) {
	l.fate.Store(&f)
}

// release lets held frames go.
func (l *link) release() {
	l.rule(func(raysys.NodeID, wire.Class, wire.Kind, []byte) fate { return deliver })
	close(l.free)
}

// cut breaks the link, as a lost connection does, and returns when both engines know.
func (l *link) cut(cause error) {
	l.mu.Lock()
	if l.down {
		l.mu.Unlock()
		l.cutting.Wait()
		return
	}
	l.down = true
	l.cutting.Add(1)
	for _, e := range l.ends {
		for c := range e.conds {
			e.conds[c].Broadcast()
		}
	}
	l.mu.Unlock()
	defer l.cutting.Done()
	l.running.Wait()
	for _, e := range l.ends {
		e.here.mu.Lock()
		e.here.peers = slices.DeleteFunc(e.here.peers, func(o *end) bool { return o == e })
		e.here.mu.Unlock()
		e.here.engine.PeerDown(e, cause)
		e.scopes.Close(raysys.ErrNotDelivered)
		e.turns.Close(fmt.Errorf("%w: node %s is gone", raysys.ErrCancelled, e.there.name))
		e.failFetches()
	}
}

// cutSoon is cut for a goroutine that delivers.
func (l *link) cutSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down {
		l.cutters.Go(func() { l.cut(errSevered) })
	}
}

var errSevered = errors.New("connection reset")

func (e *end) enqueue(c wire.Class, k wire.Kind, payload []byte) error {
	to := deliver
	if f := e.fate.Load(); f != nil {
		to = (*f)(e.here.name, c, k, payload)
	}
	switch to {
	case sever:
		e.cutSoon()
		return nil
	case refuse:
		return raysys.ErrOverloaded
	case lose:
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return raysys.ErrNotDelivered
	}
	f := frame{k, append([]byte(nil), payload...), to == hold}
	e.queues[c] = append(e.queues[c], f)
	if to == twice {
		f.payload = append([]byte(nil), payload...)
		e.queues[c] = append(e.queues[c], f)
	}
	e.conds[c].Signal()
	return nil
}

// pump delivers the frames of one class.
func (e *end) pump(c wire.Class) {
	defer e.running.Done()
	for {
		e.mu.Lock()
		e.busy[c] = false
		for (len(e.queues[c]) == 0 || e.corks > 0 && c != bulk) && !e.down {
			e.conds[c].Wait()
		}
		if e.down {
			e.mu.Unlock()
			return
		}
		list := e.queues[c]
		e.queues[c], e.busy[c] = nil, true
		e.mu.Unlock()
		for _, f := range list {
			e.deliver(f)
		}
	}
}

func (e *end) deliver(f frame) {
	if f.held {
		select {
		case <-e.free:
		case <-e.here.ending:
		}
	}
	if e.isDown() {
		return
	}
	if err := e.other.handle(f); err != nil {
		e.t.Errorf("node %s: frame of kind %d from %s: %v", e.there.name, f.kind, e.here.name, err)
	}
	for i := range f.payload { // the link uses its buffers again
		f.payload[i] = 0xa5
	}
}

func (e *end) handle(f frame) error {
	switch f.kind {
	case wire.KindOpen:
		return e.turns.Opened(f.payload)
	case wire.KindShut:
		return e.turns.Shut(f.payload)
	case wire.KindCancelTurn:
		return e.turns.Cancelled(f.payload)
	case wire.KindTasks:
		return e.here.engine.HandleTasks(e, f.payload)
	case wire.KindTaskResult:
		if len(f.payload)%2 == 0 && len(f.payload) <= wire.ItemLimit { // as the nodes send it
			return e.here.engine.HandleResults(e, wire.AppendBytes(nil, f.payload))
		}
		return e.here.engine.HandleResult(e, f.payload)
	case wire.KindLoad:
		r := wire.NewReader(f.payload)
		l, err := loadreport.ReadLoad(&r)
		if err == nil {
			e.here.engine.PeerLoad(e, l)
		}
		return err
	case wire.KindTaskCancel:
		return e.here.engine.HandleCancel(e, f.payload)
	case wire.KindTaskFinal:
		return e.here.engine.HandleFinal(e, f.payload)
	}
	return fmt.Errorf("kind %d", f.kind)
}

func (e *end) Node() raysys.NodeID { return e.there.name }
func (e *end) Incarnation() uint64 { return e.life }
func (e *end) Flush()              { e.flushes.Add(1) }
func (e *end) Cork()               { e.cork(1) }
func (e *end) Uncork(flush bool) {
	if flush {
		e.Flush()
	}
	e.cork(-1)
}

func (e *end) cork(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.corks += n; e.corks < 0 {
		e.t.Errorf("node %s: %d corks", e.there.name, e.corks)
	}
	for c := range e.conds {
		e.conds[c].Signal()
	}
}

func (e *end) Runs(entry *core.Entry) (uint32, bool) {
	n, ok := e.numbers[entry.String()]
	return n, ok && !(*e.lacks.Load())[entry.Name]
}

func (e *end) Entry(number uint32) *core.Entry {
	if int(number) >= len(e.entries) {
		return nil
	}
	return e.entries[number]
}

func (e *end) Send(c wire.Class, k wire.Kind, payload []byte) error {
	if len(payload) > wire.InlineLimit+1024 {
		e.t.Errorf("a frame of %d bytes is sent inline", len(payload))
	}
	return e.enqueue(c, k, payload)
}

func (e *end) SendFrame(k wire.Kind, payload []byte, written func([]byte)) error {
	return e.SendLarge(k, payload)
}

func (e *end) SendLarge(k wire.Kind, payload []byte) error { return e.enqueue(bulk, k, payload) }

func (e *end) Open(t *core.Turn) (uint32, error) {
	n, err := e.scopes.Open(t)
	if err == nil {
		e.open.Add(1)
	}
	return n, err
}

func (e *end) Shut(scope uint32) {
	e.open.Add(-1)
	e.scopes.Shut(scope)
}

func (e *end) Turn(scope uint32) *core.Turn { return e.turns.Turn(scope) }

func (e *end) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	if err := c.Pin(); err != nil {
		return dst, err
	}
	e.refs.Lock()
	defer e.refs.Unlock()
	n := uint64(len(e.exported))
	e.exported[n] = c
	return wire.AppendUvarint(dst, n), nil
}

func (e *end) AppendObject(dst []byte, c *core.Future) ([]byte, error) { return e.AppendRef(dst, c) }

func (e *end) ReadRef(r *wire.Reader) (*core.Future, error) {
	n := r.Uvarint()
	e.other.refs.Lock()
	c := e.other.exported[n]
	e.other.refs.Unlock()
	if c == nil {
		return nil, raysys.ErrInvalidRef
	}
	return &core.NewUntyped(e.here.job, &origin{end: e, future: c}).Future, nil
}

// origin is the source of a reference that came over the link.
type origin struct {
	end    *end
	future *core.Future
}

func (o *origin) Name() string      { return "far " + o.future.Work().Name() }
func (o *origin) ID() raysys.TaskID { return o.future.ID() }
func (o *origin) Cancelled()        {}

func (o *origin) Fetch(into any, done func(error)) {
	f := &fetch{future: o.future, into: into, done: done}
	o.end.refs.Lock()
	o.end.fetches[f] = true
	o.end.refs.Unlock()
	if !f.future.Subscribe(&f.waiter, f) {
		f.Resolved(nil)
	}
}

// fetch is one question for the outcome.
type fetch struct {
	future *core.Future
	waiter core.Waiter
	into   any
	done   func(error)
	once   sync.Once
}

func (f *fetch) Resolved(*core.Waiter) {
	v, err := f.future.Outcome()
	if err == nil {
		err = copyValue(f.into, v)
	}
	f.once.Do(func() { f.done(err) })
}

func copyValue(to, from any) error {
	v := reflect.ValueOf(from).Elem()
	p, err := codec.PlanOf(v.Type())
	if err != nil {
		return err
	}
	b, err := p.Append(nil, v, nil)
	if err != nil {
		return err
	}
	return p.Decode(b, reflect.ValueOf(to).Elem(), nil)
}

func (e *end) failFetches() {
	e.refs.Lock()
	all := e.fetches
	e.fetches = map[*fetch]bool{}
	e.refs.Unlock()
	for f := range all {
		f.once.Do(func() { f.done(raysys.ErrOutcomeUnknown) })
	}
}

// waiting reports whether frames of a class are on the way.
func (e *end) waiting(c wire.Class) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queues[c]) > 0 || e.busy[c]
}
