package lineage_test

import (
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
	c := r.RefFuture()
	b.leave(c)
	b.answer(entered, nil)
	close(b.open)
	if _, err := r.Get(b.ctx); err != nil || !c.Object() {
		t.Fatalf("the task gave no object: %v", err)
	}
	nodetest.Eventually(t, "the store is asked to note the object", func() bool { return b.questions() == 1 })
	return b, c
}

// TestObjectWithoutStore: the store is asked again to note where an object is while it is away, and not after that.
func TestObjectWithoutStore(t *testing.T) {
	b, c := computed(t)
	for _, err := range []error{raysys.ErrUnreachable, raysys.ErrSuspended, raysys.ErrOutcomeUnknown} {
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
	_ = c
}
