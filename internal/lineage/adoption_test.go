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
)

// succeed looks for the next submitter.
func (b *bed) succeed(id raysys.TaskID) (src *core.Source, got *calls) {
	src, got = new(core.Source), &calls{}
	b.Succeed(run, id, raysys.ErrNodeDead, func(s core.Source, err error) {
		*src = s
		got.called(err)
	})
	return src, got
}

// TestAnotherAdopts: of two nodes that claim a task one becomes the submitter, and the other asks that one, again while it
// does not know yet that it is; all who wait here share the question.
func TestAnotherAdopts(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	c := core.FutureOf(r.Link)
	rec := b.submitted(c, other)
	src, got := b.succeed(c.ID())
	src2, got2 := b.succeed(c.ID())
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: rec}, nil)
	b.reply(nil, raysys.ErrObjectLost)
	got.wants(t, "the next submitter does not know that it is")
	b.pass(int64(20 * time.Millisecond))
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: rec}, nil)
	at := core.Local(c)
	b.reply(at, nil)
	got.wants(t, "the next submitter answers", nil)
	if got2.wants(t, "the next submitter answers", nil); *src != at || *src2 != at {
		t.Errorf("one has %v, the other %v", *src, *src2)
	}
	src, got = b.succeed(c.ID())
	if got.wants(t, "the submitter is known", nil); *src != at || b.questions() != 0 {
		t.Error("who asks later does not get the same")
	}
}

// TestAdopts: the node whose claim is granted has the task from then on, and runs it when its outcome is wanted. Its program
// has the outcome when the record has it.
func TestAdopts(t *testing.T) {
	b := newBed(t)
	r := b.held.Go(b.ctx, "a")
	rec, id := b.submitted(core.FutureOf(r.Link), fallen), core.FutureOf(r.Link).ID()
	_, got := b.succeed(id)
	b.answer(registry.TaskEntry{Exists: true, Refused: true, Record: rec}, nil) // the leader does not know of the death yet
	b.pass(int64(20 * time.Millisecond))
	rec.Submitter, rec.Attempt = self, 2
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	got.wants(t, "this node has become the submitter", nil)
	c := b.Find(run, id)
	if c == nil || c.Settled() {
		t.Fatal("the adopted task is not known, or ran before its outcome was wanted")
	}
	close(b.open)
	var v string
	into, done := &v, make(chan error, 1)
	src, _ := b.succeed(id)
	(*src).Fetch(into, func(err error) { done <- err })
	nodetest.Eventually(t, "the outcome is recorded", func() bool { return b.questions() == 1 })
	if len(done) > 0 {
		t.Error("this node's program has the outcome before the record has: the next submitter would not know it")
	}
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	if err := nodetest.Arrive(t, done, "the outcome of the adopted task"); err != nil || v != "a!" {
		t.Errorf("the adopted task gave %q, %v", v, err)
	}
}

// TestAdoptsNewer: a task that a newer node has recorded is not run here, and stays as it is; the error says so. An error is
// not kept.
func TestAdoptsNewer(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	rec, id := b.submitted(core.FutureOf(r.Link), self), core.FutureOf(r.Link).ID()
	rec.Recipe[0] += 2 // 2 is a recipe that is an object
	_, got := b.succeed(id)
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	got.wants(t, "a newer node's record", raysys.ErrObjectLost)
	if err := got.list()[0]; !errors.Is(err, registry.ErrUnreadable) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("%v; it does not say what to do", err)
	}
	_, got = b.succeed(id)
	b.answer(registry.TaskEntry{}, nil)
	got.wants(t, "no record", raysys.ErrObjectLost)
}

// TestClaimInDoubt: a node whose claim may have been made claims again until it knows: other nodes wait for it then.
func TestClaimInDoubt(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	rec, id := b.submitted(core.FutureOf(r.Link), self), core.FutureOf(r.Link).ID()
	_, got := b.succeed(id)
	for range 300 {
		for _, err := range away {
			b.answer(registry.TaskEntry{}, err)
			got.wants(t, err.Error())
			b.pass(int64(time.Second))
		}
	}
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	if got.wants(t, "the store is back", nil); b.Find(run, id) == nil {
		t.Error("the submitter does not have the task")
	}
}

// TestNewerNameStays: a task with a name whose recipe a newer node has made is not settled as failed.
func TestNewerNameStays(t *testing.T) {
	b := newBed(t)
	defer close(b.open)
	r := b.held.Go(b.ctx, "a")
	rec, id := b.submitted(core.FutureOf(r.Link), self), core.FutureOf(r.Link).ID()
	const version, inputs, unknown = 1, 1, 200
	rec.Recipe = append([]byte{version, inputs, unknown}, rec.Recipe[2:]...)
	rec.Detached, rec.Name, rec.Function = true, "nightly", "task held"
	k := registry.NamedTask("test", rec.Name)
	b.Take(k.Run, id)
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
	b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil) // the claim
	if n := b.questions(); n != 0 || b.Find(k.Run, id) != nil {
		t.Errorf("the store is asked %d questions about a task that this node cannot read; it has it: %v", n, b.Find(k.Run, id) != nil)
	}
}
