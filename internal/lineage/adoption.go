package lineage

import (
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/wire"
)

// adoption is the search for the submitter that a task has after the death of one.
type adoption struct {
	lineage *Lineage
	key     registry.TaskKey
	tries   int    // questions to a submitter that does not know yet that it is
	pauses  int    // while the store or a node was away
	from    uint32 // the attempt whose submitter lives and cannot make the task
	told    bool   // that there are pauses
	// Guarded by Lineage.mu:
	waiting []func(core.Source, error)
	claimed bool         // this node is the submitter
	src     core.Source  // the outcome, there
	at      core.NodeKey // the submitter
	lost    error        // why this node, the submitter, cannot have the task run
	gone    bool         // no node can
}

const (
	// keptFor is how long an adopted task is kept for the nodes that will ask for it: they all learn of the death.
	keptFor = 30 * time.Second
	// maxTries bounds the questions to a submitter that does not know yet that it is.
	maxTries = 250
)

// errNotMade: the node that is asked is the submitter, and cannot make the task.
var (
	errNotMade = errors.New("its next submitter cannot make the task")
	_          = raysys.RegisterError("raysys.task-not-made", errNotMade)
)

// end tells who waits. Why this node, as the submitter, cannot have the task run it tells other nodes that ask; the record stays,
// unless no node can. No error is kept for this node: the next who asks may be luckier.
func (a *adoption) end(at core.NodeKey, src core.Source, err error) {
	l := a.lineage
	l.mu.Lock()
	waiting := a.waiting
	a.waiting, a.src, a.at = nil, src, at
	if a.claimed && errors.Is(err, raysys.ErrObjectLost) {
		a.lost = fmt.Errorf("%w: %w", errNotMade, err)
	}
	if err != nil && a.lost == nil && l.adoptions[a.key] == a {
		delete(l.adoptions, a.key)
	}
	passes := err == nil || a.gone
	l.mu.Unlock()
	if passes { // after a while: all nodes learn of the death, and ask
		l.cfg.Runner.After(keptFor, a.pass)
	}
	for _, tell := range waiting {
		tell(src, err)
	}
}

// pass forgets the adoption, and what has no use at any node.
func (a *adoption) pass() {
	l := a.lineage
	l.mu.Lock()
	if l.adoptions[a.key] == a {
		delete(l.adoptions, a.key)
	}
	gone := a.gone && l.own[a.key] == nil
	l.mu.Unlock()
	if gone {
		l.forget(a.key)
	}
}

// claim asks the leader to make this node the submitter.
func (a *adoption) claim() {
	l := a.lineage
	if a.key.Named() {
		a.read()
		return
	}
	ch := registry.ClaimTask(a.key)
	if a.from > 0 {
		ch = registry.ClaimTaskFrom(a.key, a.from)
	}
	l.cfg.Tasks.Change(ch, func(e registry.TaskEntry, err error) {
		switch {
		case away(err) && l.cfg.Runner.Err() == nil: // the claim may have been made, or no other node may make one
			l.pause(&a.pauses, a.claim)
		case err != nil:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: who has its task now is not known: %w", raysys.ErrUnreachable, err))
		case !e.Exists:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: %w", raysys.ErrObjectLost, errUnrecorded))
		case !e.Refused:
			a.adopt(e.Record)
		case len(e.Record.Outcome) > 0: // its submitter may have found the recipe lost, or may not have the function
			src, err := l.outcome(&e.Record)
			a.end(e.Record.Submitter, src, err)
		case e.Record.Submitter != l.cfg.Self() && l.cfg.Alive(e.Record.Submitter):
			a.ask(e.Record.Submitter, e.Record.Attempt)
		default: // the leader does not know of the death yet
			a.again(raysys.ErrNodeDead, a.claim)
		}
	})
}

// again tries once more after a pause.
func (a *adoption) again(err error, try func()) {
	if a.key.Named() { // its record says when it ends
		a.lineage.pause(&a.pauses, try)
		return
	}
	if a.tries++; a.tries > maxTries {
		a.end(core.NodeKey{}, nil, fmt.Errorf("%w: who has its task now is not known: %w", raysys.ErrUnreachable, err))
		return
	}
	a.lineage.cfg.Runner.Later(try)
}

// ask asks the node that has become the submitter for the outcome. This node takes the place of one whose program cannot make the
// task.
func (a *adoption) ask(k core.NodeKey, attempt uint32) {
	a.lineage.cfg.Refs.FindAt(k, a.key.Run, a.key.ID, func(src core.Source, err error) {
		switch {
		case err != nil && !errors.Is(err, errNotMade): // it does not know yet that it is, or is dead too
			a.again(err, a.claim)
		case !a.key.Named() && (errors.Is(err, raysys.ErrUnknownFunc) || errors.Is(err, registry.ErrUnreadable)):
			a.from = attempt
			a.claim()
		default:
			a.end(k, src, err)
		}
	})
}

// adopt makes the task of a record whose submitter this node has become.
func (a *adoption) adopt(rec registry.TaskRecord) {
	l := a.lineage
	if c := l.Find(a.key.Run, a.key.ID); c != nil {
		a.end(l.cfg.Self(), refs.Here(c), nil)
		return
	}
	l.mu.Lock()
	a.claimed = true
	l.mu.Unlock()
	a.open(rec)
}

// open brings the recipe. While a node that has it is away the task is pending for who waits: a task that needs it would fail for good,
// and no other node looks after a task whose submitter lives.
func (a *adoption) open(rec registry.TaskRecord) {
	l := a.lineage
	l.large.openRecipe(a.key, rec.Recipe, func(recipe []byte, large *largeRecipe, err error) {
		switch {
		case err == nil:
			rec.Recipe = recipe
			a.made(&rec, large)
		case away(err) && len(rec.Outcome) == 0 && l.cfg.Runner.Err() == nil:
			a.pause("a task waits for a node that has its recipe", err, func() { a.open(rec) })
		default:
			a.unopened(&rec, err)
		}
	})
}

// unopened ends an adoption whose recipe does not come. The outcome may still be in the record.
func (a *adoption) unopened(rec *registry.TaskRecord, err error) {
	l, src := a.lineage, core.Source(nil)
	if errors.Is(err, raysys.ErrObjectLost) {
		l.mu.Lock()
		a.gone = true
		l.mu.Unlock()
	}
	if len(rec.Outcome) > 0 {
		src, err = l.outcome(rec)
	}
	a.end(l.cfg.Self(), src, err)
}

// made has the task of a record whose submitter this node has become.
func (a *adoption) made(rec *registry.TaskRecord, large *largeRecipe) {
	l := a.lineage
	t, err := l.remade(rec)
	if err != nil {
		var src core.Source
		if err = fmt.Errorf("%w: %w", raysys.ErrObjectLost, err); len(rec.Outcome) > 0 {
			src, err = l.outcome(rec)
		}
		a.end(l.cfg.Self(), src, err)
		return
	}
	if len(rec.Outcome) > 0 {
		out := wire.NewReader(rec.Outcome)
		switch in, err := l.readInput(&out); {
		case err != nil:
			t.Fail(err)
		case in.err != nil:
			t.Fail(in.err)
		default:
			if err := t.Settle(in.value, in.inner); err != nil {
				t.Fail(err)
			}
		}
		t.Recipe.SetTold()
	}
	owned := func() {
		l.owns(a.key, t.Recipe, rec.Attempt, large)
		if l.states.retainAll(a.key, rec.States); len(rec.States) == 0 && len(rec.Outcome) == 0 {
			l.large.copyAgain(a.key)
		}
		l.noteObject(a.key, t.Future, rec.Object)
		a.end(l.cfg.Self(), refs.Here(t.Future), nil)
	}
	if len(rec.Outcome) > 0 || rec.Object == (registry.TaskObject{}) {
		owned()
		return
	}
	a.find(rec.Object, func(src core.Source) {
		if rec.Object.Once {
			if err = t.Recipe.SetSpent(); src == nil {
				l.mu.Lock()
				a.gone = true
				l.mu.Unlock()
				a.end(l.cfg.Self(), nil, err)
				return
			}
		}
		if src != nil {
			t.Forward(src)
		}
		owned()
	})
}

// find finds the object that the task has computed: nil where that is lost. While its owner does not answer the task is pending, as in
// open.
func (a *adoption) find(at registry.TaskObject, then func(core.Source)) {
	l := a.lineage
	l.findObject(a.key, at, func(src core.Source, err error) {
		switch {
		case err == nil:
			then(src)
		case l.cfg.Runner.Err() != nil:
			a.end(core.NodeKey{}, nil, err)
		default:
			a.pause("a task waits for the node that has its object", err, func() { a.find(at, then) })
		}
	})
}

// pause tries again while a node is away that has what the adopted task needs.
func (a *adoption) pause(why string, err error, try func()) {
	if !a.told {
		a.told = true
		a.lineage.cfg.Log(why, "task", a.key.ID, "error", err)
	}
	a.lineage.pause(&a.pauses, try)
}

var errUnrecorded = errors.New("its task is not recorded")
