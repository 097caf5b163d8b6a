package lineage

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// The names of detached tasks, and those that nodes draw for the objects of tasks.

// drawnName is a name for an object that only the record of a task has: its recipe, or its outcome. by tells it from others of the task.
func drawnName(what string, k registry.TaskKey, by string) string {
	return fmt.Sprintf("\x00%s %016x %s %s", what, k.Run, k.ID, by)
}

// Unused calls then when no record of a task has a drawn name, and none will: the node that drew it is dead. While the store is
// away it asks again.
func (l *Lineage) Unused(name string, then func()) {
	var k registry.TaskKey
	var what string
	if _, err := fmt.Sscanf(name, "\x00%s %16x %16x%16x", &what, &k.Run, &k.ID.Hi, &k.ID.Lo); err != nil {
		return // a program gave it
	}
	l.cfg.Tasks.Change(registry.FindTask(k), func(e registry.TaskEntry, err error) {
		switch {
		case l.cfg.Runner.Err() != nil:
		case away(err):
			l.cfg.Runner.After(untilAgain, func() { l.Unused(name, then) })
		case err == nil && !e.Refused && (!e.Exists || !l.names(&e.Record, name)):
			then()
		}
	})
}

// names reports whether a record has the name of an object: also where a newer version has made the record, and it may.
func (l *Lineage) names(rec *registry.TaskRecord, object string) bool {
	recipe, _, err := readLarge(rec.Recipe)
	newer := len(rec.Recipe) > 0 && rec.Recipe[0] > largeVersion
	if newer || err != nil || recipe != nil && recipe.name == object {
		return true
	}
	if len(rec.Outcome) == 0 {
		return false
	}
	out, err := l.readOutcome(rec)
	return err != nil || out.form == inputNamed && out.name == object
}

// named reads the record of a name, and returns the key of the task that has it.
func (l *Lineage) named(ctx context.Context, name string) (registry.TaskKey, *registry.TaskRecord, error) {
	k := registry.NamedTask(l.cfg.Job.Namespace, name)
	e, err := runner.Wait(ctx, func(done func(registry.TaskEntry, error)) { l.cfg.Tasks.Change(registry.FindTask(k), done) })
	switch {
	case err != nil:
		return k, nil, err
	case !e.Exists || e.Record.Name != name:
		return k, nil, fmt.Errorf("%w: no object and no task of the cluster has it", raysys.ErrNotFound)
	}
	k.ID = e.Record.Start.ID
	return k, &e.Record, nil
}

// LookupTask implements core.TaskNames.
func (l *Lineage) LookupTask(ctx context.Context, name string) (f core.FoundTask, err error) {
	k, rec, err := l.named(ctx, name)
	if err != nil {
		return f, err
	}
	in := recorded{form: inputTask, run: k.Run, id: k.ID}
	over := len(rec.Outcome) > 0
	if over {
		if in, err = l.readOutcome(rec); err != nil {
			return f, err
		}
	}
	return core.FoundTask{Future: in.future(l), Digest: rec.Digest, Over: over}, nil
}

// ForgetTask implements core.TaskNames.
func (l *Lineage) ForgetTask(ctx context.Context, name string) error {
	k, rec, err := l.named(ctx, name)
	if err != nil {
		return err
	}
	if _, err = runner.Wait(ctx, func(done func(registry.TaskEntry, error)) { l.cfg.Tasks.Change(registry.RemoveTask(k), done) }); err == nil {
		l.dropObjects(rec)
		l.cfg.Refs.TakeAt(rec.Submitter, k.Run, k.ID) // which finds that it is gone, and ends it
	}
	return err
}

// dropObjects frees the objects that the outcome of a record and its recipe may be.
func (l *Lineage) dropObjects(rec *registry.TaskRecord) {
	if at, _, err := readLarge(rec.Recipe); at != nil && err == nil {
		l.large.largeOf(at).drop()
	}
	if in, err := l.readOutcome(rec); err == nil && in.form == inputNamed {
		l.cfg.Runner.Run(func() { _ = l.cfg.Job.Objects.(core.Names).Forget(l.cfg.Runner.Context(), in.name) })
	}
}

// readOutcome reads the outcome of a record.
func (l *Lineage) readOutcome(rec *registry.TaskRecord) (recorded, error) {
	r := wire.NewReader(rec.Outcome)
	return l.readInput(&r)
}

// outcome returns what brings the outcome of a record.
func (l *Lineage) outcome(rec *registry.TaskRecord) (core.Source, error) {
	in, err := l.readOutcome(rec)
	if err != nil {
		return nil, fmt.Errorf("%w: its outcome: %w", raysys.ErrObjectLost, err)
	}
	return in.source(l), nil
}

// appendNamed appends what readInput reads.
func (in *recorded) appendNamed(dst []byte) []byte {
	return wire.AppendBytes(wire.AppendID(append(dst, inputNamed), in.id), in.name)
}

// namedObject brings an object that has a name: the outcome of a detached task, or its recipe.
type namedObject struct {
	*recorded
	lineage *Lineage
	what    string
}

func (o *namedObject) Name() string      { return o.what }
func (o *namedObject) ID() raysys.TaskID { return o.id }
func (o *namedObject) Cancelled()        {}

// Fetch implements core.Source.
func (o *namedObject) Fetch(into any, done func(error)) {
	cfg := &o.lineage.cfg
	cfg.Runner.Background(func() {
		c, err := cfg.Job.Objects.(core.Names).Lookup(cfg.Runner.Context(), o.name)
		switch {
		case errors.Is(err, raysys.ErrNotFound), errors.Is(err, raysys.ErrObjectLost):
			done(fmt.Errorf("%w: %s: submit the task again: %w", raysys.ErrObjectLost, o.what, err))
		case err != nil: // a node that has it may come back
			done(fmt.Errorf("%s: %w", o.what, err))
		case core.SourceOf(c) != nil:
			core.SourceOf(c).Fetch(into, done)
		default:
			refs.Here(c).Fetch(into, done)
		}
	}, done)
}

// RecordedJob is what the record of a name has.
type RecordedJob struct {
	ID       raysys.TaskID
	Function string
	Settled  bool
	Argument []byte // as taskengine.RecordedArgument reads it; nil where the record has none
	Result   []byte // encoded; nil where the record has none
	Object   string // the outcome, or the recipe, is this object
	Err      error  // the outcome is a failure
}

// ReadJob reads the record of a name. The error matches raysys.ErrNotFound where there is none.
func ReadJob(ctx context.Context, l *Lineage, name string) (j RecordedJob, err error) {
	_, rec, err := l.named(ctx, name)
	if err != nil {
		return j, err
	}
	j = RecordedJob{ID: rec.Start.ID, Function: functionOf(rec), Settled: len(rec.Outcome) > 0}
	if j.Settled {
		out, err := (*Lineage)(nil).readOutcome(rec)
		if j.Result, j.Err = out.value, out.err; out.form == inputNamed {
			j.Object = out.id.String()
		}
		return j, err
	}
	at, _, err := readLarge(rec.Recipe)
	if at != nil || err != nil {
		j.Object = rec.Start.ID.String()
		return j, err
	}
	r := wire.NewReader(rec.Recipe)
	if v := r.Byte(); v != recordVersion {
		return j, errVersion
	}
	for range r.Count(1) {
		if _, err := (*Lineage)(nil).readInput(&r); err != nil {
			return j, err
		}
	}
	j.Argument = r.Bytes()
	return j, r.Err()
}
