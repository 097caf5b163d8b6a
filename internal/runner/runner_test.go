package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock keeps the alarms that were set.
type clock struct {
	mu     sync.Mutex // guards alarms
	alarms []*core.Alarm
}

func (c *clock) Now() int64 { return 1000 }

func (c *clock) SetAlarm(a *core.Alarm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = append(c.alarms, a)
}

// TestRunner: what was started is waited for, and after the end nothing starts.
func TestRunner(t *testing.T) {
	r := runner.New(&clock{})
	ran := make(chan string, 2) // one for each that runs
	r.Run(func() {
		<-r.Context().Done()
		ran <- "run"
	})
	r.Background(func() {
		if r.Pause(time.Hour) {
			t.Error("a pause did not end with the runner")
		}
		ran <- "background"
	}, func(err error) { t.Errorf("nothing ran in the background before the end: %v", err) })
	if r.Err() != nil {
		t.Errorf("it has ended: %v", r.Err())
	}
	cause := errors.New("fenced")
	r.End(cause)
	r.End(errors.New("later"))
	r.Wait()
	if len(ran) != 2 {
		t.Errorf("%d of 2 goroutines were waited for", len(ran))
	}
	if !errors.Is(r.Err(), cause) {
		t.Errorf("it ended by %v, want the first cause", r.Err())
	}
	r.Run(func() { t.Error("something ran after the end") })
	var told error
	r.Background(func() { t.Error("something ran after the end") }, func(err error) { told = err })
	if !errors.Is(told, raysys.ErrClosed) || !errors.Is(told, cause) {
		t.Errorf("what is not run any more heard %v, want raysys.ErrClosed and the cause", told)
	}
	r.Wait()
}

// TestRunnerRace: goroutines that are started while the runner ends have ended when Wait returns, or were refused.
func TestRunnerRace(t *testing.T) {
	r := runner.New(&clock{})
	var mu sync.Mutex // guards the rest
	running, refused := 0, 0
	add := func(n *int, by int) {
		mu.Lock()
		*n += by
		mu.Unlock()
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				add(&running, 1)
				r.Background(func() { add(&running, -1) }, func(error) { add(&running, -1); add(&refused, 1) })
			}
		})
	}
	r.End(raysys.ErrClosed)
	wg.Wait()
	r.Wait()
	if running != 0 {
		t.Errorf("%d of 800 neither ran to their end nor were refused (%d were)", running, refused)
	}
}

// TestRunnerAfter: what comes later is an alarm of the node's clock.
func TestRunnerAfter(t *testing.T) {
	c := &clock{}
	r := runner.New(c)
	rung := 0
	r.After(7, func() { rung++ })
	r.Later(func() { rung++ })
	if len(c.alarms) != 2 || c.alarms[0].At != 1007 || c.alarms[1].At <= 1007 {
		t.Fatalf("the alarms are %v", c.alarms)
	}
	for _, a := range c.alarms {
		a.Ring()
	}
	if rung != 2 || r.Now() != 1000 {
		t.Errorf("%d of 2 rang at %d", rung, r.Now())
	}
	r.End(raysys.ErrClosed)
}

// TestWait: who waits gets what comes or the end of ctx; what comes later is seen to.
func TestWait(t *testing.T) {
	if v, err := runner.Wait(t.Context(), func(done func(int, error)) { done(3, nil) }); v != 3 || err != nil {
		t.Errorf("%d, %v; want what came", v, err)
	}
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		var late func(int, error)
		seen := 0
		_, err := runner.WaitOr(ctx, func(done func(int, error)) { late = done }, func(v int, _ error) { seen = v })
		if !errors.Is(err, why) {
			t.Errorf("%v; want why ctx ended", err)
		}
		if late(5, nil); seen != 5 {
			t.Errorf("what came late was not seen to: %d", seen)
		}
	})
}
