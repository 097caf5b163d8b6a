package lineage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// Records are the records of tasks in the store. Package registry implements it.
type Records interface {
	Change(ch registry.TaskChange, done func(registry.TaskEntry, error))
}

// References are this node's references to other nodes. Package refs implements it.
type References interface {
	Uncounted(owner core.NodeKey, id raysys.TaskID) *refs.RemoteSource
	Borrow(owner core.NodeKey, number uint64, id raysys.TaskID) core.Source
	FindAt(k core.NodeKey, run uint64, id raysys.TaskID, done func(core.Source, error))
	FindObject(owner core.NodeKey, number uint64, id raysys.TaskID, done func(core.Source, error))
	TakeAt(k core.NodeKey, run uint64, id raysys.TaskID)
	AtTick(f func())
	RetainAt(k core.NodeKey, run uint64, id raysys.TaskID, state string, done func(error))
}

// Config says what New makes a Lineage of.
type Config struct {
	Tasks  Records
	States StateRecords
	Refs   References
	Engine *taskengine.Engine
	Runner *runner.Runner
	Job    *core.Job                   // the node's
	JobOf  func(wire.JobKey) *core.Job // of another node's work
	Self   func() core.NodeKey         // this node
	Alive  func(core.NodeKey) bool     // reports whether an incarnation is in the cluster
	Driver bool                        // this node keeps nothing for others
	Log    func(message string, args ...any)
}

// Lineage is one node's side of the durable lineage of tasks: a core.Gate, and a refs.Lineage.
type Lineage struct {
	cfg     Config
	mu      sync.Mutex // guards the maps of the parts, too, and the rest
	records recording
	states  stateTasks
	takes   taking
	large   largeRecipes

	own       map[registry.TaskKey]*task     // the recorded tasks whose submitter this node is
	adoptions map[registry.TaskKey]*adoption // for a while after a death
	held      map[registry.TaskKey]*holding  // the tasks with a name whose submitter this node is, until they have settled
	late      []*departure                   // departures that wait, the oldest first
}

// task is a recorded task.
type task struct {
	lineage *Lineage
	key     registry.TaskKey

	// Guarded by Lineage.mu:
	future  weak.Pointer[core.Future]
	attempt uint32              // of this node, in the record
	large   *largeRecipe        // its recipe, where that is an object
	stays   bool                // that outlives all nodes, as do those of what the task is made of
	gone    bool                // it is this node's no more
	waiting []func(error)       // for the outcome to be in the record; none while it is not on its way
	object  registry.TaskObject // which the record names
	noting  []func(error)       // for the record to say where the object is; none while that is not on its way
}

var (
	_ core.Gate    = (*Lineage)(nil)
	_ refs.Lineage = (*Lineage)(nil)

	_ taskengine.Starter = (*Lineage)(nil)
	_ core.TaskNames     = (*Lineage)(nil)
	_ core.StateGate     = (*Lineage)(nil)
)

// New makes the Lineage of a node; it does no I/O.
func New(cfg Config) *Lineage {
	l := &Lineage{
		cfg: cfg, own: map[registry.TaskKey]*task{}, adoptions: map[registry.TaskKey]*adoption{}, held: map[registry.TaskKey]*holding{},
	}
	l.records = recording{l, map[*taskengine.Recipe][]func(error){}}
	l.states = stateTasks{l, map[registry.TaskKey]*retained{}}
	l.takes = taking{l, map[registry.TaskKey]bool{}}
	l.large.l = l
	return l
}

// Find implements refs.Lineage.
func (l *Lineage) Find(run uint64, id raysys.TaskID) *core.Future {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findLocked(registry.TaskKey{Run: run, ID: id})
}

func (l *Lineage) findLocked(k registry.TaskKey) *core.Future {
	t := l.own[k]
	if t == nil {
		return nil
	}
	c := t.future.Value()
	if c == nil || !orphaned(c) {
		return c
	}
	rec, _ := taskengine.RecipeOf(c)
	if rec == nil {
		return nil
	}
	if next := rec.Revive(); next != nil { // who asks is the next attempt of what submitted it, or another that needs it
		t.future = weak.Make(next)
		return next
	}
	return c
}

// orphaned reports whether c has failed below a turn whose submitter is gone, or has given it up. That is no outcome: the
// turn's next attempt submits the task again.
func orphaned(c *core.Future) bool {
	gone := (*core.Orphaned)(nil)
	return c.Failed() && errors.As(c.Up().Cancelled(), &gone)
}

// owns notes that this node is the submitter of a recorded task, until the recipe is of no use here.
func (l *Lineage) owns(k registry.TaskKey, rec *taskengine.Recipe, attempt uint32, large *largeRecipe) {
	t := &task{lineage: l, key: k, future: rec.Loose(), attempt: attempt, large: large}
	l.mu.Lock()
	l.own[k] = t
	l.mu.Unlock()
	rec.SetRecorded(k.Run, attempt, t)
}

// Forget implements taskengine.Record. The record of a name stays.
func (t *task) Forget() {
	if !t.key.Named() {
		t.lineage.cfg.Refs.AtTick(func() { t.lineage.forget(t.key) })
	}
}

// Spent implements taskengine.Record.
func (t *task) Spent() {
	t.lineage.cfg.Refs.AtTick(func() { t.lineage.noted(t.key, func(error) {}) })
}

// forget has the record of a task go.
func (l *Lineage) forget(k registry.TaskKey) {
	l.disown(k)
	l.cfg.Tasks.Change(registry.ForgetTask(k), func(registry.TaskEntry, error) {})
}

// disown forgets a task whose record goes, or has its outcome, and frees the object that its recipe may be.
func (l *Lineage) disown(k registry.TaskKey) {
	l.mu.Lock()
	t := l.own[k]
	if delete(l.own, k); t != nil {
		t.gone = true
	}
	l.mu.Unlock()
	if t != nil {
		t.large.drop()
	}
}

// Recorded is how many tasks are recorded whose submitter this node is.
func (l *Lineage) Recorded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.own)
}

// Succeed implements refs.Lineage.
func (l *Lineage) Succeed(run uint64, id raysys.TaskID, cause error, done func(core.Source, error)) {
	tell := func(src core.Source, err error) {
		if err != nil && cause != nil {
			err = fmt.Errorf("%w; %w", cause, err)
		}
		done(src, err)
	}
	k := registry.TaskKey{Run: run, ID: id}
	l.mu.Lock()
	if c := l.findLocked(k); c != nil {
		l.mu.Unlock()
		tell(refs.Here(c), nil)
		return
	}
	a := l.adoptions[k]
	if a != nil && (a.src != nil && !l.cfg.Alive(a.at) || a.lost != nil) {
		a = nil // that one has died too, or there was none: this node may be luckier now
	}
	if a != nil && a.src != nil {
		l.mu.Unlock()
		tell(a.src, nil)
		return
	}
	first := a == nil
	if first {
		a = &adoption{lineage: l, key: k}
		l.adoptions[k] = a
	}
	a.waiting = append(a.waiting, tell)
	l.mu.Unlock()
	if first {
		a.claim()
	}
}

// Found implements refs.Lineage.
func (l *Lineage) Found(run uint64, id raysys.TaskID, done func(*core.Future, error)) {
	k := registry.TaskKey{Run: run, ID: id}
	l.mu.Lock()
	c, a, lost := l.findLocked(k), l.adoptions[k], error(nil)
	switch {
	case c != nil || a == nil:
	case a.claimed && a.waiting != nil:
		a.waiting = append(a.waiting, func(_ core.Source, err error) {
			c := l.Find(run, id)
			if c != nil {
				err = nil
			}
			done(c, err)
		})
		l.mu.Unlock()
		return
	default:
		lost = a.lost
	}
	l.mu.Unlock()
	done(c, lost)
}

// Leave implements core.Gate.
func (l *Lineage) Leave(futures []*core.Future, then func(error)) {
	d := &departure{lineage: l, then: then}
	d.left.Store(1)
	d.lookAll(futures)
	d.begin()
}

// endWaitAfterPatience ends the wait of d after the patience.
func (l *Lineage) endWaitAfterPatience(d *departure) {
	d.at = l.cfg.Runner.Now() + int64(patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late = append(l.late, d); len(l.late) == 1 {
		l.cfg.Runner.After(patience, l.expire)
	}
}

// expire has those leave that have waited for long enough.
func (l *Lineage) expire() {
	now := l.cfg.Runner.Now()
	l.mu.Lock()
	n := 0
	for n < len(l.late) && l.late[n].at <= now {
		n++
	}
	due := l.late[:n:n]
	if l.late = l.late[n:]; len(l.late) > 0 {
		l.cfg.Runner.After(time.Duration(l.late[0].at-now), l.expire)
	}
	l.mu.Unlock()
	for _, d := range due {
		d.leave()
	}
}

// ExplainRecorded says what the record of a task tells beside e, which names its submitter as far as a reference knows, dead
// or "". The node that has the task now is asked for more, where it is not zero.
func (l *Lineage) ExplainRecorded(ctx context.Context, k registry.TaskKey, e *core.Explanation) (at core.NodeKey) {
	dead := "its submitter " + string(e.Submitter) + " is dead"
	if e.Submitter == "" {
		dead = "no reference names its submitter"
	}
	rec, err := l.find(ctx, k)
	switch {
	case err != nil:
		e.NoRecipe = fmt.Sprintf("%s, and whether another node has its task is not known: %v", dead, err)
	case rec == nil:
		e.NoRecipe = dead + ", and its task is not recorded any more"
	case l.cfg.Alive(rec.Submitter):
		if at = rec.Submitter; e.Submitter != "" && e.Submitter != at.Node || rec.Attempt > 1 {
			e.Adopter = at.Node
		}
		return at
	case k.Named(), len(rec.States) > 0:
		e.Recipe, e.NoRecipe = true, ""
		e.Error = cmp.Or(e.Error, dead+": the shard's leader asks a worker to take its task over")
	default:
		e.Recipe, e.NoRecipe = true, ""
		e.Error = cmp.Or(e.Error, dead+": the first node that wants the value takes its task over")
	}
	if e.NoRecipe != "" && e.State != "lost" {
		e.NoRecipe += ": it cannot be made again once its copies are gone"
	}
	return core.NodeKey{}
}

// find reads the record of a task; nil where there is none.
func (l *Lineage) find(ctx context.Context, k registry.TaskKey) (*registry.TaskRecord, error) {
	e, err := runner.Wait(ctx, func(done func(registry.TaskEntry, error)) { l.cfg.Tasks.Change(registry.FindTask(k), done) })
	if err != nil || !e.Exists {
		return nil, err
	}
	return &e.Record, nil
}

// ExplainNamed says what the record of a detached task tells, and which node has the task while it runs. ok is false where no
// task of the namespace has the name.
func (l *Lineage) ExplainNamed(ctx context.Context, namespace, name string) (e core.Explanation, at core.NodeKey, ok bool, err error) {
	rec, err := l.find(ctx, registry.NamedTask(namespace, name))
	if err != nil || rec == nil || rec.Name != name {
		return e, at, false, err
	}
	e = core.Explanation{
		ID: rec.Start.ID.String(), Name: functionOf(rec), State: "pending", Submitter: rec.Submitter.Node, Attempt: int(rec.Attempt), Recipe: true,
	}
	switch {
	case len(rec.Outcome) > 0:
		e.State, e.Recipe, e.NoRecipe = "ready", false, "it has settled: its outcome is in the record of its name"
		if out, err := l.readOutcome(rec); err != nil || out.err != nil {
			e.State, e.Error = "failed", fmt.Sprint(cmp.Or(out.err, err))
		} else if out.form == inputNamed {
			e.NoRecipe = "it has settled: its outcome is an object of two nodes, submit the task again if both are lost"
		}
	case l.cfg.Alive(rec.Submitter):
		at = rec.Submitter
	default:
		e.Error = fmt.Sprintf("its submitter %s is dead: the shard's leader asks a worker to take it over", rec.Submitter.Node)
	}
	return e, at, true, nil
}

// hold makes this node the submitter of a task with a name.
func (l *Lineage) hold(k registry.TaskKey, rec *taskengine.Recipe, attempt uint32, c *core.Future, large *largeRecipe) {
	_ = c.Pin() // the program may release it
	h := &holding{lineage: l, key: k, rec: rec, future: c}
	l.owns(k, rec, attempt, large)
	l.mu.Lock()
	l.held[k] = h
	l.mu.Unlock()
	if !c.Subscribe(&h.Waiter, h) {
		h.Resolved(nil)
	}
	h.lookAgain()
}

// ends reports whether this node ends. What fails by that has no outcome: a task with a name outlives the node.
func (l *Lineage) ends() bool { return l.cfg.Job.Top.Cancelled() != nil || l.cfg.Runner.Err() != nil }

// publish gives an object a name: in files if nodes have directories for that, and on two nodes, a driver not counted, if there are two.
func (l *Lineage) publish(c *core.Future, name string) (err error) {
	names, ctx := l.cfg.Job.Objects.(core.Names), l.cfg.Runner.Context()
	for replicas := 2; replicas > 0; replicas-- {
		for _, onDisk := range []bool{true, false} {
			err = names.Publish(ctx, c, core.PutSpec{Name: name, Replicas: replicas, OnDisk: onDisk, Others: l.cfg.Driver})
			if err == nil || ctx.Err() != nil || away(err) {
				return err
			}
		}
	}
	return err
}

// readInput reads what appendInput and appendOutcome append. A nil l reads over it: no node is asked for anything.
func (l *Lineage) readInput(r *wire.Reader) (in recorded, err error) {
	switch in.form = r.Byte(); in.form {
	case inputGone:
		in.name = r.String()
	case inputTask:
		in.run, in.id = r.Uvarint(), r.ID()
	case inputOther:
		in.id, in.owner = r.ID(), wire.ReadNode(r)
	case inputHeld:
		in.id, in.owner, in.number = r.ID(), wire.ReadNode(r), r.Uvarint()
	case inputNamed:
		in.id, in.name = r.ID(), r.String()
	case inputError:
		in.id = r.ID()
		in.err = wire.ReadError(r)
	case inputValue:
		in.id = r.ID()
		in.value = append([]byte(nil), r.Bytes()...)
		for range r.Count(1) {
			inner, err := l.readInput(r)
			if err != nil {
				return in, err
			}
			if l != nil {
				in.inner = append(in.inner, inner.future(l))
			}
		}
	default:
		return in, errors.Join(r.Err(), errVersion)
	}
	return in, r.Err()
}

// remade makes the task of a record.
func (l *Lineage) remade(rec *registry.TaskRecord) (taskengine.Adopted, error) {
	r := wire.NewReader(rec.Recipe)
	inputs, body, err := l.readRecipe(&r)
	if err != nil {
		return taskengine.Adopted{}, err
	}
	with := taskengine.Adoption{Submission: rec.Attempt, Inputs: inputs}
	if rec.Start != (registry.TaskKey{}) {
		with.Name, with.Early = rec.Name, rec.Early()
	}
	return l.cfg.Engine.Adopt(body, with, l.cfg.JobOf)
}

// readRecipe reads what enter has recorded.
func (l *Lineage) readRecipe(r *wire.Reader) (inputs []*core.Future, body []byte, err error) {
	if v := r.Byte(); v != recordVersion && r.Err() == nil {
		return nil, nil, errVersion
	}
	for range r.Count(1) {
		in, err := l.readInput(r)
		if err != nil {
			return nil, nil, err
		}
		src := in.source(l)
		if in.form == inputTask || in.form == inputNamed || in.form == inputHeld {
			src = &patient{Source: src, lineage: l}
		}
		inputs = append(inputs, &core.NewUntyped(l.cfg.Job, src).Future)
	}
	return inputs, r.Bytes(), r.Err()
}

// priorOf returns the future of a recorded task which an earlier attempt has submitted on this node, nil where there is none
// that is of use. Other nodes may know it.
func (l *Lineage) priorOf(k registry.TaskKey, rec *taskengine.Recipe) *core.Future {
	c := l.Find(k.Run, k.ID)
	if c == nil || c == rec.Future() || c.Failed() && (core.Untold(c) || orphaned(c)) {
		return nil
	}
	return c
}

// Join implements taskengine.Joiner. Where the store does not answer for the patience, the task runs here.
func (l *Lineage) Join(rec *taskengine.Recipe, done func(core.Source, error)) {
	var known atomic.Pointer[elsewhere]
	d := &departure{lineage: l, then: func(err error) { l.join(rec, known.Load(), err, done) }}
	d.left.Store(2)
	l.records.recordRecipe(rec, func(err error) {
		if e := (*elsewhere)(nil); errors.As(err, &e) {
			known.Store(e)
		}
		d.done(err)
	})
	d.begin()
}

// join is Join when the record of the task is there, which may have another submitter, or an outcome: known.
func (l *Lineage) join(rec *taskengine.Recipe, known *elsewhere, err error, done func(core.Source, error)) {
	switch {
	case known == nil:
		done(nil, err)
	case known.here != nil:
		done(refs.Here(known.here), nil)
	case known.object != (registry.TaskObject{}):
		l.findObject(registry.TaskKey{Run: rec.Run(), ID: rec.ID()}, known.object, func(src core.Source, err error) {
			if src != nil {
				src = found{src}
				if known.object.Once {
					_ = rec.SetSpent() // the last attempt has run it
				}
			}
			done(src, err)
		})
	case len(known.record.Outcome) > 0:
		r := wire.NewReader(known.record.Outcome)
		in, err := l.readInput(&r)
		if err == nil {
			err = in.err
		}
		done(&stored{&in}, err)
	default:
		r, err := rec.Recording()
		if err != nil {
			done(nil, nil)
			return
		}
		l.Succeed(r.Run, r.ID, nil, func(src core.Source, err error) {
			if errors.Is(err, errUnrecorded) { // that submitter let go of it meanwhile: the task is this node's
				l.Join(rec, done)
				return
			}
			done(src, err)
		})
	}
}

// noteObject has the record, which says known, say where the object of c is, a task of this node, as soon as the task has computed one.
func (l *Lineage) noteObject(k registry.TaskKey, c *core.Future, known registry.TaskObject) {
	l.mu.Lock()
	if t := l.own[k]; t != nil {
		t.object = known
	}
	l.mu.Unlock()
	n := &objectNote{lineage: l, key: k}
	if !c.Subscribe(&n.Waiter, n) {
		n.Resolved(nil)
	}
}

// noted has the record of a task say where the object is that the task has computed, if this node is the submitter. done is called once, on
// any goroutine: with nil when it does, or with which node has the task now.
func (l *Lineage) noted(k registry.TaskKey, done func(error)) {
	l.mu.Lock()
	t := l.own[k]
	if t == nil || k.Named() { // another node is the submitter, or the outcome has a name
		l.mu.Unlock()
		done(nil)
		return
	}
	first := t.noting == nil
	t.noting = append(t.noting, done)
	l.mu.Unlock()
	if first {
		l.note(k, t)
	}
}

// note enters where the object of a task is now, and ends noted when the record says so.
func (l *Lineage) note(k registry.TaskKey, t *task) {
	l.mu.Lock()
	c, known, mine := t.future.Value(), t.object, l.own[k] == t
	l.mu.Unlock()
	at := l.objectOf(c)
	if !mine || at == known || at == (registry.TaskObject{}) {
		l.records.answerWaiting(&t.noting, nil)
		return
	}
	l.cfg.Tasks.Change(registry.ComputedTask(k, t.attempt, at), func(e registry.TaskEntry, err error) {
		switch {
		case away(err):
			l.cfg.Runner.After(untilAgain, func() { l.note(k, t) })
			return
		case err != nil:
			l.cfg.Log("the record of a task does not say where its object is", "task", k.ID, "error", err)
			l.records.answerWaiting(&t.noting, nil)
			return
		case e.Refused && e.Exists:
			l.records.answerWaiting(&t.noting, fmt.Errorf("%w: task %s has another submitter by now, %s", core.ErrObjectLost, k.ID, e.Record.Submitter))
			return
		}
		l.mu.Lock()
		t.object = at
		l.mu.Unlock()
		l.note(k, t) // it may have been made again elsewhere meanwhile
	})
}

// objectOf says where the object of c is; zero where c has settled otherwise, or not at all.
func (l *Lineage) objectOf(c *core.Future) registry.TaskObject {
	if c == nil || !c.Object() {
		return registry.TaskObject{}
	}
	at := registry.TaskObject{Owner: l.cfg.Self()}
	if s := refs.RemoteOf(core.Behind(c)); s != nil {
		at.Owner, at.Number = s.Owner, s.Number
	}
	if rec, _ := taskengine.RecipeOf(c); rec != nil {
		at.Once = rec.Spent()
	}
	return at
}

// findObject finds an object by the record of its task: a nil Source says that it is lost. While a node that does not answer may have it
// that is asked again; err says that it did not answer for long.
func (l *Lineage) findObject(k registry.TaskKey, at registry.TaskObject, done func(core.Source, error)) {
	l.tryObject(k, at, 1, done)
}

func (l *Lineage) tryObject(k registry.TaskKey, at registry.TaskObject, try int, done func(core.Source, error)) {
	l.cfg.Refs.FindObject(at.Owner, at.Number, k.ID, func(src core.Source, err error) {
		switch {
		case err == nil:
			done(src, nil)
		case errors.Is(err, raysys.ErrObjectLost), !away(err):
			done(nil, nil)
		case try == maxTries:
			done(nil, err)
		default:
			l.cfg.Runner.Later(func() { l.tryObject(k, at, try+1, done) })
		}
	})
}

// Start implements taskengine.Starter.
func (l *Lineage) Start(ctx context.Context, rec *taskengine.Recipe, name string, done func(core.Source, error)) {
	r, err := rec.Recording()
	if err != nil {
		done(nil, err)
		return
	}
	s := &start{lineage: l, ctx: ctx, rec: rec, r: r, done: done, key: registry.NamedTask(rec.Namespace(), name)}
	s.key.ID = r.ID
	l.records.recordInputs(&r, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		s.entry = registry.TaskRecord{
			Digest: r.Digest, Detached: true, Name: name,
			Start: registry.TaskKey{Run: r.Run, ID: r.ID}, Namespace: rec.Namespace(), Function: "task " + rec.Name(),
		}
		if l.cfg.Driver {
			s.entry.Object.Number = 1 // see TaskRecord.Early
		}
		if r.Key == taskengine.ForGood {
			s.entry.Attempt = 1 // see EnterTask
		}
		s.recipe = l.records.encodeRecipe(&r)
		s.readName()
	})
}

// tryAfterPause calls try after a pause that grows with the number of tries.
func (l *Lineage) tryAfterPause(tries *int, try func()) {
	*tries++ // before the pause: try may be called on another goroutine
	l.cfg.Runner.After(min(10*time.Millisecond<<min(*tries, 10), untilAgain), try)
}

// start begins to keep a task that this node has entered in the store. It returns false if the node keeps that task already.
func (l *Lineage) start(s *start, attempt uint32) bool {
	c := s.rec.Future()
	if c == nil || l.Find(s.key.Run, s.key.ID) != nil {
		return false
	}
	l.hold(s.key, s.rec, attempt, c, s.large)
	return true
}

// RetainTask implements core.StateGate.
func (l *Lineage) RetainTask(c *core.Future, state string, done func(core.RetainedTask, error)) {
	l.Leave([]*core.Future{c}, func(err error) {
		if err != nil {
			done(core.RetainedTask{}, err)
			return
		}
		run, id := refs.RecordedAs(c)
		k := registry.TaskKey{Run: run, ID: id}
		if run == 0 || k.Named() { // the record of a name stays
			done(core.RetainedTask{Run: run, ID: id}, nil)
			return
		}
		s := &retaining{lineage: l, key: k, state: state, done: done}
		if at := refs.SubmitterOf(c); at != (core.NodeKey{}) && l.cfg.Alive(at) {
			s.askSubmitter(at)
			return
		}
		s.readRecord()
	})
}

// RetainHere implements refs.Lineage.
func (l *Lineage) RetainHere(run uint64, id raysys.TaskID, state string, done func(error)) {
	k := registry.TaskKey{Run: run, ID: id}
	if !registry.IsStateKey(state) || k.Named() {
		done(fmt.Errorf("%w: %.64q is no key of a State, or the task has a name", raysys.ErrInvalidRef, state))
		return
	}
	w, r := l.states.retainTask(k, state, false)
	if w == nil {
		done(errNotSubmitter)
		return
	}
	l.states.changeInTurn(k, r, func(over func()) {
		l.mu.Lock()
		known := r.listed[state]
		l.mu.Unlock()
		if known {
			over()
			w.begin()
			done(nil)
			return
		}
		l.large.makeStay(r.rec, func() { l.states.enterState(k, r, w, over, done) })
	})
}

// Take implements refs.Lineage.
func (l *Lineage) Take(run uint64, id raysys.TaskID) {
	k := registry.TaskKey{Run: run, ID: id}
	l.mu.Lock()
	if h := l.held[k]; h != nil { // another node has ended it
		l.mu.Unlock()
		h.lookAtRecord()
		return
	}
	busy := l.takes.busy[k] || l.findLocked(k) != nil
	l.takes.busy[k] = l.takes.busy[k] || !busy
	l.mu.Unlock()
	if busy {
		return
	}
	over := func() {
		l.mu.Lock()
		delete(l.takes.busy, k)
		l.mu.Unlock()
	}
	l.cfg.Tasks.Change(registry.FindTask(k), func(e registry.TaskEntry, err error) {
		if err == nil && e.Exists && !l.takes.canRun(&e.Record) || err != nil || !e.Exists {
			over()
			return
		}
		if !k.Named() {
			l.Succeed(run, id, nil, func(core.Source, error) { over() })
			return
		}
		l.takes.claimTask(k, over)
	})
}
