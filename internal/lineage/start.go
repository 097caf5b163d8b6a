package lineage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// Detached tasks with names: their start, their next submitters and their ends. See registry.NamedTask for the record.
//
//	Start ── entered ──▶ held ── settles ──▶ outcome in the record, or as an object of two nodes ──▶ no more held
//	                      ✝
//	the leader ─────────▶ Take ── claim ──▶ held, begun
//
// Who waits reads the record until that has an outcome or a submitter that lives: it never claims.

// start is a task that is being started.
type start struct {
	lineage *Lineage
	ctx     context.Context
	rec     *taskengine.Recipe
	r       taskengine.Recording
	key     registry.TaskKey
	entry   registry.TaskRecord
	before  registry.TaskRecord // what the name has had
	recipe  []byte
	large   *largeRecipe // the recipe, where that is an object
	tries   int
	done    func(core.Source, error)
}

// look reads what the name has, for the object that its outcome may be.
func (s *start) look() {
	k := s.key
	k.ID = raysys.TaskID{}
	s.lineage.cfg.Tasks.Change(registry.FindTask(k), func(e registry.TaskEntry, err error) {
		if err != nil {
			s.again(err, s.look)
			return
		}
		s.before = e.Record
		if s.r.Key != "" && e.Exists && len(e.Record.Outcome) > 0 && e.Record.Digest == s.entry.Digest { // the same one
			src, err := s.lineage.outcome(&e.Record)
			s.done(src, err)
			return
		}
		s.fit()
	})
}

// fit makes an object of a recipe that is too large for the record.
func (s *start) fit() {
	if s.entry.Recipe != nil {
		s.enter()
		return
	}
	s.lineage.large.fitRecipe(s.key, s.rec.Name(), s.recipe, func(recipe []byte, large *largeRecipe, err error) {
		if err != nil {
			s.again(err, s.fit)
			return
		}
		s.entry.Recipe, s.large = recipe, large
		s.enter()
	})
}

// enter enters the record.
func (s *start) enter() {
	l := s.lineage
	l.cfg.Tasks.Change(registry.EnterTask(s.key, s.entry), func(e registry.TaskEntry, err error) {
		t := &e.Record
		switch {
		case err != nil:
			s.again(err, s.enter)
		case !e.Exists:
			s.done(nil, fmt.Errorf("%w: the cluster holds this node for dead", raysys.ErrFenced))
		case t.Name != s.entry.Name || t.Digest != s.entry.Digest:
			s.large.drop()
			s.done(nil, taskengine.NameTaken(s.entry.Name, functionOf(t)))
		case e.Refused || len(t.Outcome) > 0 || !l.start(s, t.Attempt):
			l.Succeed(s.key.Run, t.Start.ID, nil, func(src core.Source, err error) {
				if errors.Is(err, errUnrecorded) { // it has settled since, and another has its name, or none
					s.look()
					return
				}
				s.large.drop()
				s.done(src, err)
			})
		default:
			s.done(nil, nil)
			l.dropObjects(&s.before)
		}
	})
}

// again tries once more while the store is away.
func (s *start) again(err error, try func()) {
	if s.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(s.ctx), err)
	} else if away(err) {
		s.lineage.pause(&s.tries, try)
		return
	}
	s.done(nil, err)
}

// away reports whether err may pass: the store, the leader of a shard or another node does not answer for now, or has too much to do.
func away(err error) bool {
	return errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrSuspended) || errors.Is(err, raysys.ErrOutcomeUnknown) ||
		errors.Is(err, raysys.ErrOverloaded)
}

// untilAgain is the longest pause between two questions about the task of a name.
const untilAgain = time.Second
