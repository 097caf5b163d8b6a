package raysys_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
)

// job is work that never runs by itself: a test settles its future.
type job struct{ core.Result[int] }

func (j *job) ValueType() *core.ValueType            { return core.TypeOf[int]() }
func (j *job) Name() string                          { return "job" }
func (j *job) Help(*core.Turn) bool                  { return false }
func (j *job) Expires() int64                        { return 0 }
func (j *job) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }
func (j *job) Break([]string) bool                   { return false }

// running returns work that the turn of ctx has submitted and somebody has started.
func running(t *testing.T, ctx context.Context) *job {
	t.Helper()
	up, _, err := core.TurnOf(ctx)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{}
	j.Future.Init(j, up, up.Next(), false)
	if !j.Future.Start() {
		t.Fatal("new work could not be started")
	}
	return j
}

// A future fails once: what fails it a second time changes nothing, and is told so.
func TestSecondFailKeepsTheFirstError(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	first, second := errors.New("first"), errors.New("second")
	j := running(t, ctx)
	if !j.Future.Fail(first) {
		t.Fatal("the first Fail of running work did not settle its future")
	}
	if j.Future.Fail(second) {
		t.Error("a second Fail says that it settled the future")
	}
	if err := j.Future.Failure(); err != first {
		t.Errorf("after a second Fail the future's error is %v, not the first one", err)
	}
	if _, err := nodetest.Get(t, ctx, raysys.Ref[int](core.RefTo(&j.Result))); !errors.Is(err, first) || errors.Is(err, second) {
		t.Errorf("after a second Fail Get returns %v, not the first error", err)
	}

	j = running(t, ctx)
	core.Resolve(&j.Result, 3)
	if j.Future.Fail(first) || j.Future.Failure() != nil {
		t.Errorf("Fail changed a future that has a value: %v", j.Future.Failure())
	}
	if v, err := nodetest.Get(t, ctx, raysys.Ref[int](core.RefTo(&j.Result))); v != 3 || err != nil {
		t.Errorf("after Fail a future that has the value 3 gives %d, %v", v, err)
	}
}

// The arguments that an attempt keeps readable stay readable in the next one, and no longer.
func TestPinsPassToTheNextAttempt(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	arg := raysys.Put(ctx, newWide(1))
	j := running(t, ctx)
	j.Future.Turn().Pin([]*core.Future{futureOf(arg)})
	arg.Release()
	for attempt := 2; attempt <= 4; attempt++ {
		last, ok := j.Future.Again(attempt, 0)
		if !ok {
			t.Fatal("running work could not be tried again")
		}
		last.Cancel(errors.New("the attempt has failed"))
		last.End()
		if v, err := arg.Get(core.NewContext(j.Future.OwnTurn())); err != nil || !v.whole() {
			t.Fatalf("attempt %d cannot read the argument that the one before it kept: %v", attempt, err)
		}
		if _, err := arg.Get(core.NewContext(last)); err == nil {
			t.Errorf("attempt %d, which has ended, still reads the argument", attempt-1)
		}
		if !j.Future.Unhold() || !j.Future.Start() {
			t.Fatal("the next attempt could not be started")
		}
	}
	core.Resolve(&j.Result, 1)
	j.Future.OwnTurn().End()
	if _, err := arg.Get(ctx); !errors.Is(err, raysys.ErrReleased) {
		t.Errorf("the argument was released and the work is done, but Get says %v", err)
	}
}
