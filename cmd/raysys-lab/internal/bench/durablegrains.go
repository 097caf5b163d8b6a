package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// The row of figure 11b of the paper (Ray, OSDI 2018): durable grains are called all the time, some of the workers that hold
// them are killed at once and replaced. Ray runs the methods since the last checkpoint again; here no call that was
// acknowledged may run again.

// killedGrains is how much the row calls, and for how long.
type killedGrains struct {
	workers, killed int
	grains          int
	pause           time.Duration // of a caller between a reply and its next call; each grain has one caller
	tick            time.Duration // between two looks at how many calls were acknowledged
	// Ticks before the kill, from then to the start of other workers, and from when these have joined.
	before, dead, after int
}

var figure11b = killedGrains{
	workers: 5, killed: 2, grains: 2000, pause: time.Second, tick: time.Second, before: 8, dead: 4, after: 10,
}

// durableGrainsRow is in the catalogue of the tier.
func durableGrainsRow() Row {
	return Row{
		Name: "durable_grains", Unit: "calls/s", Named: true,
		measure:   func(ctx context.Context, p Plan) (measured, error) { return durableGrains(ctx, p, figure11b) },
		Operation: "acknowledged calls of 2000 durable grains, each called a second after its last reply, after two of five workers were killed and replaced",
	}
}

// numbered is a durable grain whose one caller numbers its calls.
type numbered struct{ state grains.State[numberedState] }

// numberedState says which calls have run. What is in it was committed.
type numberedState struct {
	Runs  int
	Last  int // the highest number
	Again int // runs of a call that had run
}

func (g *numbered) call(_ context.Context, number int) (int, error) {
	s := &g.state.Value
	if number <= s.Last {
		s.Again++
	}
	s.Runs, s.Last = s.Runs+1, max(s.Last, number)
	return s.Runs, nil
}

func (g *numbered) read(context.Context) (numberedState, error) { return g.state.Value, nil }

var (
	numberedKind = grains.DefineIn[numbered](functions, "numbered", grains.Durable())
	numberedCall = grains.Method(numberedKind, "call", (*numbered).call)
	numberedRead = grains.Method0(numberedKind, "read", (*numbered).read).ReadOnly()
)

func durableGrains(ctx context.Context, p Plan, s killedGrains) (m measured, err error) {
	r := &killedRun{killedGrains: s}
	err = withCluster(ctx, p, s.workers, func(driver context.Context, c *cluster) error { return r.watch(ctx, driver, c) })
	m.rounds, m.limits = r.rates[r.replaced:], r.rates[:min(s.before, len(r.rates))]
	m.value, m.limitValue = mean(m.rounds), mean(m.limits)
	m.latency, m.latencyOf = &r.took, "one call, repeated by the runtime where its grain's worker was killed"
	m.limit = "the same before the workers were killed"
	m.note("each_tick", figuresOf(r.rates))
	m.note("tick_seconds", s.tick.Seconds())
	m.note("killed_at_tick", s.before)
	m.note("replaced_at_tick", r.replaced)
	m.note("acknowledged", r.acknowledged.Load())
	m.note("without_outcome", r.unknown)
	m.note("ran_again", 0) // else there is an error
	m.note("longest_gap_ms", figures(us(r.gap)/1000))
	m.note("gap", "between two replies of one grain; its caller pauses "+s.pause.String()+" of it")
	return m, err
}

// killedRun is one run of the row.
type killedRun struct {
	killedGrains
	acknowledged atomic.Int64
	rates        []float64 // of each tick
	replaced     int       // the first tick after the other workers have joined

	mu      sync.Mutex // guards the rest
	warm    bool       // every grain was called: what came before is not in took and gap
	took    hist
	gap     time.Duration
	unknown int
}

// watch has a caller call each grain, kills workers meanwhile, and compares what ran with what was acknowledged.
func (r *killedRun) watch(ctx, driver context.Context, c *cluster) error {
	running, stop := context.WithCancel(driver)
	defer stop()
	ended := make(chan error, r.grains)
	for i := range r.grains {
		go func() { ended <- r.repeat(driver, running, i) }()
	}
	err := r.strike(ctx, running, c)
	stop()
	for range r.grains {
		err = errors.Join(err, <-ended)
	}
	return err
}

// strike ends workers meanwhile, all at once.
func (r *killedRun) strike(ctx, running context.Context, c *cluster) error {
	for from := time.Now(); r.acknowledged.Load() < int64(2*r.grains); {
		if time.Since(from) > settlePatience {
			return fmt.Errorf("%d calls of %d grains after %v", r.acknowledged.Load(), r.grains, settlePatience)
		}
		if err := pause(running, r.tick/4); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.warm = true
	r.mu.Unlock()
	if err := r.ticks(running, r.before); err != nil {
		return err
	}
	victims := append([]*process(nil), c.workers[:r.killed]...)
	for _, w := range victims {
		if err := w.strike(); err != nil {
			return err
		}
	}
	if err := r.ticks(running, r.dead); err != nil {
		return err
	}
	replaced := make(chan error, 1)
	go func() { replaced <- c.replace(ctx, victims...) }()
	for {
		select {
		case err := <-replaced:
			if err != nil {
				return err
			}
			r.replaced = len(r.rates)
			return r.ticks(running, r.after)
		default:
		}
		if err := r.ticks(running, 1); err != nil {
			return errors.Join(err, <-replaced)
		}
	}
}

// ticks looks so many times.
func (r *killedRun) ticks(ctx context.Context, n int) error {
	for range n {
		from, before := time.Now(), r.acknowledged.Load()
		if err := pause(ctx, r.tick); err != nil {
			return err
		}
		r.rates = append(r.rates, float64(r.acknowledged.Load()-before)/time.Since(from).Seconds())
	}
	return nil
}

// repeat calls one grain until running ends, and then reads which calls have run.
func (r *killedRun) repeat(driver, running context.Context, i int) error {
	g := numberedKind.Get("numbered-" + strconv.Itoa(i))
	acknowledged, unknown, last := 0, 0, time.Now()
	// The callers begin spread over the pause, and are not in step.
	err := pause(running, r.pause*time.Duration(i)/time.Duration(r.grains))
	for number := 1; err == nil; number++ {
		from := time.Now()
		_, failed := numberedCall.Call(driver, g, number).Get(driver)
		switch now := time.Now(); {
		case failed == nil:
			acknowledged++
			r.reply(now.Sub(from), now.Sub(last))
			last = now
		case errors.Is(failed, raysys.ErrOutcomeUnknown):
			unknown++
		default:
			return fmt.Errorf("call %d of grain %d: %w", number, i, failed)
		}
		err = pause(running, r.pause)
	}
	r.mu.Lock()
	r.unknown += unknown
	r.mu.Unlock()
	s, err := numberedRead.Call(driver, g).Get(driver)
	switch {
	case err != nil:
		return fmt.Errorf("read grain %d: %w", i, err)
	case s.Again > 0:
		return fmt.Errorf("grain %d ran %d calls again that had run", i, s.Again)
	case s.Runs < acknowledged || s.Runs > acknowledged+unknown:
		return fmt.Errorf("grain %d counted %d calls; %d were acknowledged, of %d the outcome is not known", i, s.Runs, acknowledged, unknown)
	}
	return nil
}

// reply counts a call that was acknowledged so long after the one before it of the same grain.
func (r *killedRun) reply(took, gap time.Duration) {
	r.acknowledged.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warm {
		r.took.add(took)
		r.gap = max(r.gap, gap)
	}
}
