package lineage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/registry"
)

// entered is what the store answers to this node, the submitter of a task.
var entered = registry.TaskEntry{Exists: true, Record: registry.TaskRecord{Submitter: self, Attempt: 1}}

// computed is a recorded task that has settled with an object. The store is asked to note where that is.
func computed(t *testing.T) (*bed, *core.Future) {
	t.Helper()
	b := newBed(t)
	r := b.bulk.Go(b.ctx, "a")
	c := core.FutureOf(r.Link)
	b.leave(c)
	b.answer(entered, nil)
	close(b.open)
	if _, err := r.Get(b.ctx); err != nil || !c.Object() {
		t.Fatalf("the task gave no object: %v", err)
	}
	nodetest.Eventually(t, "the store is asked to note the object", func() bool { return b.questions() == 1 })
	return b, c
}

// away are the errors of a store that may answer later.
var away = []error{raysys.ErrUnreachable, raysys.ErrSuspended, raysys.ErrOutcomeUnknown, raysys.ErrOverloaded}

// TestObjectWithoutStore: the store is asked again to note where an object is while it is away, and not after that.
func TestObjectWithoutStore(t *testing.T) {
	b, c := computed(t)
	for _, err := range away {
		b.answer(registry.TaskEntry{}, err)
		b.pass(int64(time.Second))
		if n := b.questions(); n != 1 {
			t.Fatalf("a second after %v the store is asked %d questions, want that for the object again", err, n)
		}
	}
	b.answer(entered, nil)
	b.pass(int64(time.Minute))
	if n := b.questions(); n != 0 {
		t.Errorf("%d questions about an object that is in the record", n)
	}
	if !c.Object() {
		t.Error("the object went")
	}
}

// TestObjectLeaves: another node learns of an object when the record of its task says where that is, or after a second without the store; of
// none that another submitter may have computed again.
func TestObjectLeaves(t *testing.T) {
	for law, refused := range map[string]error{"it is in the record": nil, "another node is the submitter": raysys.ErrObjectLost} {
		b, c := computed(t)
		first, second := b.leave(c), b.leave(c)
		first.wants(t, "it is not in the record")
		b.answer(registry.TaskEntry{Exists: true, Refused: refused != nil, Record: registry.TaskRecord{Submitter: other, Attempt: 2}}, nil)
		first.wants(t, law, refused)
		second.wants(t, law, refused)
		if n := b.questions(); n != 0 {
			t.Errorf("%s: the store is asked %d questions", law, n)
		}
	}
	b, c := computed(t)
	late := b.leave(c)
	b.pass(int64(999 * time.Millisecond))
	late.wants(t, "999 ms without the store")
	b.pass(int64(time.Millisecond))
	late.wants(t, "1 s without the store", nil)
	b.answer(entered, nil)
	b.leave(c).wants(t, "it came into the record after all", nil)
}

// box is the Source of an object at another node.
type box struct{ core.Source }

// objectOf is the record of a task. Its last submitter has entered where the task's object is.
func (b *bed) objectOf(c *core.Future, by core.NodeKey) registry.TaskRecord {
	rec := b.submitted(c, by)
	rec.Object = registry.TaskObject{Owner: other, Number: objectNumber}
	return rec
}

// errLost is how another node's object is found lost: the first try may have met a node that was not dead yet.
var errLost = fmt.Errorf("%w: %w", raysys.ErrObjectLost, raysys.ErrUnreachable)

// TestAdoptsObject: the next submitter of a task asks the owner of its object again that does not answer, and does not have the task
// run while the owner may have it.
func TestAdoptsObject(t *testing.T) {
	for law, err := range map[string]error{"the owner has it": nil, "it is lost": errLost} {
		b := newBed(t)
		r := b.bulk.Go(b.ctx, "a")
		rec, id := b.objectOf(core.FutureOf(r.Link), self), core.FutureOf(r.Link).ID()
		_, got := b.succeed(id)
		b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
		for range 600 { // no other node looks for the object while this one lives
			b.reply(nil, raysys.ErrUnreachable)
			got.wants(t, "the owner does not answer")
			b.pass(int64(time.Second))
		}
		b.reply(box{}, err)
		if got.wants(t, law, nil); b.Find(run, id).Settled() != (err == nil) {
			t.Errorf("%s: the task has settled: %v", law, err != nil)
		}
		close(b.open)
	}
}

// TestJoinsObject: a further attempt does the same with a task that the last attempt has computed.
func TestJoinsObject(t *testing.T) {
	for law, err := range map[string]error{"the owner has it": nil, "it is lost": errLost} {
		b := newBed(t)
		r := b.bulk.Go(b.ctx, "a")
		src, got := b.join(core.FutureOf(r.Link))
		b.answer(registry.TaskEntry{Exists: true, Record: b.objectOf(core.FutureOf(r.Link), self)}, nil)
		for range 100 {
			b.reply(nil, raysys.ErrUnreachable)
			got.wants(t, "the owner does not answer")
			b.pass(int64(20 * time.Millisecond)) // longer than the store may take
		}
		b.reply(box{}, err)
		if got.wants(t, law, nil); (*src != nil) != (err == nil) {
			t.Errorf("%s: joined at %v", law, *src)
		}
		close(b.open)
	}
}
