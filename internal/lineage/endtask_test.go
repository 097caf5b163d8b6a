package lineage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// startJob starts a task under a name, which runs.
func (b *bed) startJob() (c *core.Future, rec registry.TaskRecord) { return b.startJobOf("a") }

// startJobOf is startJob with an argument, which may be large.
func (b *bed) startJobOf(arg string) (c *core.Future, rec registry.TaskRecord) {
	b.t.Helper()
	r := b.held.Go(b.ctx, arg)
	c = core.FutureOf(r.Link)
	recipe, _ := taskengine.RecipeOf(c)
	done := make(chan error, 1)
	b.Start(b.ctx, recipe, "nightly", func(_ core.Source, err error) { done <- err })
	b.answer(registry.TaskEntry{}, nil)
	nodetest.Eventually(b.t, "the job is entered", func() bool { return b.questions() == 1 })
	rec = b.submitted(c, self)
	rec.Name, rec.Detached = "nightly", true
	rec.Start = registry.TaskKey{Run: run, ID: c.ID()}
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	if err := nodetest.Arrive(b.t, done, "the job has begun"); err != nil {
		b.t.Fatal(err)
	}
	nodetest.Eventually(b.t, "the job runs", func() bool { return !c.Pending() })
	return c, rec
}

// TestLooksAtRecord: the submitter of a job looks at its record, and ends the job when that has an outcome or is gone, as nobody may have
// told it.
func TestLooksAtRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		now  func(*registry.TaskEntry)
		err  error
		ends bool
	}{
		{name: "as before", now: func(*registry.TaskEntry) {}},
		{name: "it has an outcome", now: func(e *registry.TaskEntry) { e.Record.Outcome = []byte{1} }, ends: true},
		{name: "it is gone", now: func(e *registry.TaskEntry) { *e = registry.TaskEntry{} }, ends: true},
		{name: "the cluster holds the node for dead", now: func(e *registry.TaskEntry) { *e = registry.TaskEntry{Refused: true} }},
		{name: "the store is away", now: func(e *registry.TaskEntry) { *e = registry.TaskEntry{} }, err: raysys.ErrUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			defer close(b.open)
			job, rec := b.startJob()
			b.pass(int64(10 * time.Second))
			e := registry.TaskEntry{Exists: true, Record: rec}
			c.now(&e)
			b.answer(e, c.err)
			if ended := errors.Is(job.Failure(), raysys.ErrCancelled); ended != c.ends {
				t.Errorf("the job has ended: %v, %v", ended, job.Failure())
			}
		})
	}
}

// TestCancelledAsItEnds: a job settles with a value, and its record has the failure of a Cancel that came first. Other nodes that wait for the
// job are told of that failure, and not of a lost object; also when another job has the name by then nothing is lost.
func TestCancelledAsItEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		now  func(*registry.TaskEntry)
		want error
	}{
		{name: "Cancel came first", now: func(e *registry.TaskEntry) {
			e.Record.Outcome = lineage.Failure(e.Record.Start.ID, raysys.ErrCancelled)
		}, want: raysys.ErrCancelled},
		{name: "another node has it", now: func(e *registry.TaskEntry) { e.Record.Submitter = other }, want: raysys.ErrObjectLost},
		{name: "its outcome cannot be read", now: func(e *registry.TaskEntry) { e.Record.Outcome = []byte{255} }, want: raysys.ErrObjectLost},
		{name: "another job has the name", now: func(e *registry.TaskEntry) { *e = registry.TaskEntry{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			job, rec := b.startJob()
			close(b.open)
			nodetest.Eventually(t, "the outcome is on its way to the record", func() bool { return job.Settled() && b.questions() == 1 })
			waiting := b.leave(job)
			waiting.wants(t, "the outcome is not in the record")
			e := registry.TaskEntry{Exists: true, Refused: true, Record: rec}
			c.now(&e)
			b.answer(e, nil)
			if waiting.wants(t, c.name, c.want); errors.Is(c.want, raysys.ErrCancelled) && errors.Is(waiting.list()[0], raysys.ErrObjectLost) {
				t.Errorf("told of a lost object: %v", waiting.list()[0])
			}
			if b.Recorded() != 0 {
				t.Error("the node holds a job that has its outcome, or that another node has")
			}
		})
	}
}

// TestCancelledAsItEndsFreesRecipe: no other node needs the object that holds the large argument of such a job.
func TestCancelledAsItEndsFreesRecipe(t *testing.T) {
	b := newBed(t)
	job, rec := b.startJobOf(strings.Repeat("a", 2*raysys.ObjectSize))
	named := func() (n int) {
		for _, i := range b.job.Objects.(*objects.Objects).List() {
			n += len(i.Names)
		}
		return n
	}
	if named() != 1 {
		t.Fatalf("%d objects have names, want the recipe", named())
	}
	close(b.open)
	nodetest.Eventually(t, "the outcome is on its way to the record", func() bool { return job.Settled() && b.questions() == 1 })
	rec.Outcome = lineage.Failure(rec.Start.ID, raysys.ErrCancelled)
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: rec}, nil)
	nodetest.Eventually(t, "the recipe is freed", func() bool { return named() == 0 })
}

// TestSaysThatItRan: an attempt that has run for a minute is said to the record once, so that the death of its node is no attempt.
func TestSaysThatItRan(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	_, rec := b.startJob()
	said := 0
	for at := 10; at <= 150; at += 10 {
		b.pass(int64(10 * time.Second))
		n := b.questions()
		if said += n - 1; at < 60 && said > 0 {
			t.Fatalf("after %d s the record is told that the attempt has run for a minute", at)
		}
		for range n {
			b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
		}
	}
	if said != 1 {
		t.Errorf("the record was told %d times, want once", said)
	}
}

// TestCancelWaitsForRecord: Cancel returns when the record has it, after a while also when the store is away, and goes on behind that.
func TestCancelWaitsForRecord(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	job, rec := b.startJob()
	cancel := func() (over chan struct{}) {
		over = make(chan struct{})
		end := b.EndTask(job)
		go func() { end(); close(over) }()
		nodetest.Eventually(t, "the record is asked", func() bool { return b.questions() == 1 })
		return over
	}
	over := cancel()
	b.answer(registry.TaskEntry{}, raysys.ErrUnreachable)
	select {
	case <-over:
		t.Error("Cancel returned while the record did not have it")
	default:
	}
	b.pass(int64(time.Second))
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	nodetest.Arrive(t, over, "the end of Cancel")
	over = cancel()
	b.answer(registry.TaskEntry{}, raysys.ErrUnreachable)
	b.pass(int64(5 * time.Second))
	nodetest.Arrive(t, over, "the end of a Cancel without a store")
	if b.questions() == 0 {
		t.Error("the record is asked no more")
	}
}
