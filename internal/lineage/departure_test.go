package lineage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// leave has futures leave.
func (b *bed) leave(futures ...*core.Future) *calls {
	got := &calls{}
	b.Leave(futures, got.called)
	return got
}

// wants checks what a departure was told.
func (c *calls) wants(t *testing.T, law string, want ...error) {
	t.Helper()
	got := c.list()
	if len(got) != len(want) {
		t.Fatalf("%s: told %v, want %v", law, got, want)
	}
	for i := range got {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("%s: told %v, want %v", law, got, want)
		}
	}
}

// TestLeave: references to one task leave together when it is recorded, which is asked for once; then they leave at once.
func TestLeave(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	c := core.FutureOf(r.Link)
	first, second := b.leave(c), b.leave(c)
	first.wants(t, "a task that is not recorded")
	if n := b.questions(); n != 1 {
		t.Errorf("the task is entered %d times, want once", n)
	}
	b.answer(registry.TaskEntry{Exists: true, Record: registry.TaskRecord{Submitter: self, Attempt: 1}}, nil)
	for _, d := range []*calls{first, second, b.leave(c)} {
		d.wants(t, "a recorded task", nil)
	}
	if core.RecordedUnder(c) != run || b.Recorded() != 1 {
		t.Errorf("recorded under %d, %d in all", core.RecordedUnder(c), b.Recorded())
	}
	b.pass(int64(time.Minute))
	first.wants(t, "it leaves once", nil)
}

// TestLeaveUnrecorded: where the store does not answer, a reference leaves after its own second; the answer counts later.
func TestLeaveUnrecorded(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	c := core.FutureOf(r.Link)
	first := b.leave(c)
	b.pass(int64(600 * time.Millisecond))
	second := b.leave(c)
	b.pass(int64(399 * time.Millisecond))
	first.wants(t, "999 ms")
	b.pass(int64(time.Millisecond))
	first.wants(t, "1 s without the store", nil)
	second.wants(t, "the other has waited for 400 ms")
	b.pass(int64(600 * time.Millisecond))
	second.wants(t, "1 s without the store", nil)
	b.answer(registry.TaskEntry{Exists: true, Record: registry.TaskRecord{Submitter: self, Attempt: 1}}, nil)
	first.wants(t, "it leaves once", nil)
	b.leave(c).wants(t, "the record came after all", nil)
	if b.Recorded() != 1 {
		t.Error("the late record does not count")
	}
}

// TestLeaveRefused: a task that was recorded with another argument must not be named; the error says in what they differ.
func TestLeaveRefused(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r, before := b.held.Go(b.ctx, "order 17"), b.held.Go(b.ctx, "order 18")
	d := b.leave(core.FutureOf(r.Link))
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: b.submitted(core.FutureOf(before.Link), self)}, nil)
	d.wants(t, "other content under its id", raysys.ErrNondeterministic)
	const diff = "of the encoded argument begins 37 and was 38"
	if err := d.list()[0]; !strings.Contains(err.Error(), diff) || !strings.Contains(err.Error(), "Branch") {
		t.Errorf("%v; it does not say %q", err, diff)
	}
}

// TestLeaveDead: the leader enters no task for a node that is no member any more. That node, which may not know it yet,
// names the task to nobody: other content is something else.
func TestLeaveDead(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	d := b.leave(core.FutureOf(r.Link))
	b.answer(registry.TaskEntry{Refused: true}, nil)
	d.wants(t, "a node that is no member", raysys.ErrFenced)
	if err := d.list()[0]; errors.Is(err, raysys.ErrNondeterministic) {
		t.Errorf("%v: its parent did nothing else", err)
	}
}

// untold is a recorded task that has settled, and whose outcome is not in its record.
func untold(t *testing.T) (*bed, *core.Future) {
	t.Helper()
	b := newBed(t)
	r := b.held.Go(b.ctx, "a")
	c := core.FutureOf(r.Link)
	b.leave(c)
	b.answer(registry.TaskEntry{Exists: true, Record: registry.TaskRecord{Submitter: self, Attempt: 1}}, nil)
	close(b.open)
	nodetest.Want(t, b.ctx, r, "a!")
	return b, c
}

// TestUntold: the outcome of a recorded task is told when it is in the record, and not before; with that of an earlier
// submitter it is refused.
func TestUntold(t *testing.T) {
	for law, refused := range map[string]error{"it is in the record": nil, "another node is the submitter": raysys.ErrObjectLost} {
		b, c := untold(t)
		if !core.Untold(c) {
			t.Error("an outcome that is not in the record may be told: the next submitter would not know it")
		}
		first, second := b.leave(c), b.leave(c)
		first.wants(t, "the outcome is not in the record")
		b.answer(registry.TaskEntry{Exists: true, Refused: refused != nil, Record: registry.TaskRecord{Submitter: other, Attempt: 2}}, nil)
		first.wants(t, law, refused)
		second.wants(t, law, refused)
		if core.Untold(c) != (refused != nil) {
			t.Errorf("%s: untold is %v", law, core.Untold(c))
		}
	}
}

// TestUntoldWithoutStore: while the store is away an outcome stays untold, and is asked to be recorded again.
func TestUntoldWithoutStore(t *testing.T) {
	b, c := untold(t)
	d := b.leave(c)
	for _, err := range away {
		b.answer(registry.TaskEntry{}, err)
		b.pass(int64(time.Second))
		if !core.Untold(c) {
			t.Fatalf("after %v an outcome may be told that is not known to be in the record", err)
		}
	}
	d.wants(t, "a reference leaves after 1 s", nil)
	b.answer(registry.TaskEntry{Exists: true, Record: registry.TaskRecord{Submitter: self, Attempt: 1}}, nil)
	if core.Untold(c) {
		t.Error("the outcome is in the record, and untold")
	}
}

// join asks whether a task is to run.
func (b *bed) join(c *core.Future) (src *core.Source, got *calls) {
	src, got = new(core.Source), &calls{}
	rec, _ := taskengine.RecipeOf(c)
	b.Join(rec, func(s core.Source, err error) {
		*src = s
		got.called(err)
	})
	return src, got
}

// TestJoin: a further attempt runs a task that it submits once that is recorded, or after a second without the store; it
// does not run one that another node has.
func TestJoin(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	c := core.FutureOf(r.Link)
	src, got := b.join(c)
	b.pass(int64(999 * time.Millisecond))
	got.wants(t, "999 ms")
	b.pass(int64(time.Millisecond))
	if got.wants(t, "1 s without the store", nil); *src != nil {
		t.Error("without the store it does not run here")
	}
	src, got = b.join(c)
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: b.submitted(c, other)}, nil)
	got.wants(t, "another node has it")
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: b.submitted(c, other)}, nil) // the claim
	at := core.Local(c)
	b.reply(at, nil)
	if got.wants(t, "another node has it", nil); *src != at {
		t.Errorf("joined at %v, want that node's outcome", *src)
	}
}

// TestLeaveOverloaded: a reference does not leave at once where the store has too much to do.
func TestLeaveOverloaded(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	d := b.leave(core.FutureOf(r.Link))
	b.answer(registry.TaskEntry{}, raysys.ErrOverloaded)
	d.wants(t, "the store has too much to do")
	b.pass(int64(20 * time.Millisecond))
	b.answer(registry.TaskEntry{Exists: true, Record: registry.TaskRecord{Submitter: self, Attempt: 1}}, nil)
	if d.wants(t, "it is recorded", nil); b.Recorded() != 1 {
		t.Errorf("%d tasks are recorded, want 1", b.Recorded())
	}
}
