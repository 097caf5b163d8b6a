package registry

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// kinds are an operation of each kind, asked by this node: done gets its error.
func kinds(token graindir.Token) map[string]func(e *elsewhere, done func(error)) {
	return map[string]func(e *elsewhere, done func(error)){
		"locate":  asking[graindir.Placed](locateAlice()),
		"confirm": asking[graindir.Placed](confirmAlice(token)),
		"release": asking[graindir.Place](releaseAlice(token)),
		"load":    asking[[]graindir.Record](loadAlice(token)),
		"save":    asking[graindir.ETag](saveAlice(token)),
		"changes": asking[[]Entry](&changes{[]Change{RemoveName("n/x")}}),
		"find":    asking[Entry](&find{key: "n/x"}),
		"tasks":   asking[[]taskAnswer](&taskChanges{[]TaskChange{ClaimTask(taskOne)}}),
	}
}

func asking[A any](op operation[A]) func(*elsewhere, func(error)) {
	return func(e *elsewhere, done func(error)) { ask(e.reg, op, func(_ A, err error) { done(err) }) }
}

var errAnswer = errors.New("the leader's answer")

// TestNextLeaderIsAsked: a node that does not lead the shard has done nothing, so each operation goes to the next leader; what that
// one answers is the answer.
func TestNextLeaderIsAsked(t *testing.T) {
	for name, begin := range kinds(graindir.Token{Epoch: 1}) {
		t.Run(name, func(t *testing.T) {
			e, _ := newElsewhere(t, nil)
			times := 0 // one request at a time
			e.asked = func(q request) {
				if times++; times < 3 {
					q.fail(errNotLeader)
					return
				}
				q.fail(errAnswer)
			}
			end := make(chan error, 2)
			begin(e, func(err error) { end <- err })
			if err := <-end; err == nil || err.Error() != errAnswer.Error() || times != 3 {
				t.Errorf("%s of a shard whose third leader answers: %v after %d questions", name, err, times)
			}
		})
	}
}

// TestUnknownOutcome: when the connection ends before the answer, a save ends with that error, since it may have been committed; all
// else is asked again.
func TestUnknownOutcome(t *testing.T) {
	for name, begin := range kinds(graindir.Token{Epoch: 1}) {
		t.Run(name, func(t *testing.T) {
			e, _ := newElsewhere(t, nil)
			questions := make(chan request, 3)
			e.asked = func(q request) { questions <- q }
			end := make(chan error, 2)
			begin(e, func(err error) { end <- err })
			<-questions
			e.connect(t, func(func()) {}).Close(errors.New("broken by the test"))
			select {
			case q := <-questions:
				if name == "save" {
					t.Fatal("a save whose answer was lost is repeated")
				}
				q.fail(errAnswer)
				if err := <-end; err == nil || err.Error() != errAnswer.Error() {
					t.Errorf("%s, asked again: %v, want the second answer", name, err)
				}
			case err := <-end:
				if name != "save" || !errors.Is(err, raysys.ErrOutcomeUnknown) {
					t.Errorf("%s whose answer was lost: %v; want ErrOutcomeUnknown of a save, and all else asked again", name, err)
				}
			}
		})
	}
}

// TestUndelivered: what was not sent, because the connection was over, is sent over the next one: a save too.
func TestUndelivered(t *testing.T) {
	for name, begin := range kinds(graindir.Token{Epoch: 1}) {
		e, _ := newElsewhere(t, nil)
		e.asked = func(q request) { q.fail(errAnswer) }
		e.calls.Load().Close(errors.New("broken by the test"))
		end := make(chan error, 2)
		begin(e, func(err error) { end <- err })
		e.connect(t, func(func()) {})
		if err := <-end; err == nil || err.Error() != errAnswer.Error() {
			t.Errorf("%s that was not delivered at first: %v, want the leader's answer", name, err)
		}
	}
}

// TestNotPassedOn: a node that another takes for the leader passes no request on, but says that it does not lead: at once, or when
// another node leads the shard that it was about to take.
func TestNotPassedOn(t *testing.T) {
	e, _ := newElsewhere(t, nil)
	e.asked = func(q request) {
		t.Error("a request of another node was passed on")
		q.fail(errAnswer)
	}
	driver := core.NodeKey{Node: "driver", Incarnation: 9}
	if a := says(e, driver, locateAlice()); a.err != errNotLeader {
		t.Errorf("a node that does not lead the shard answers %v, want errNotLeader", a.err)
	}
	e.leads.Store(true)
	end := make(chan error, 1)
	askFrom(e, driver, locateAlice(), func(_ graindir.Placed, err error) { end <- err })
	soon(t, "the request of another node waits for this one to lead", func() bool { return e.reg.Waiting() == 1 })
	e.leads.Store(false)
	e.reg.Retry()
	if err := <-end; err != errNotLeader {
		t.Errorf("a node that was about to lead the shard, which another leads now, answers %v, want errNotLeader", err)
	}
}

// TestClosedAndSuspended: a node that has ended, or whose lease is out, asks nothing. Without its lease it may release.
func TestClosedAndSuspended(t *testing.T) {
	for name, begin := range kinds(graindir.Token{Epoch: 1}) {
		e, _ := newElsewhere(t, nil)
		e.asked = func(q request) { q.fail(errAnswer) }
		end := make(chan error, 1)
		e.away.Store(true)
		begin(e, func(err error) { end <- err })
		if err := <-end; errors.Is(err, raysys.ErrSuspended) == (name == "release") {
			t.Errorf("%s while the lease is out: %v", name, err)
		}
		e.away.Store(false)
		e.reg.Close(raysys.ErrClosed)
		begin(e, func(err error) { end <- err })
		if err := <-end; !errors.Is(err, raysys.ErrClosed) {
			t.Errorf("%s after the end: %v, want ErrClosed", name, err)
		}
	}
}
