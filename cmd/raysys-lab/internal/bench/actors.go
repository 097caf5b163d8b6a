package bench

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

const mailboxName = "buffered channel to one goroutine that holds the state"

// rawActor is the raw limit of the actor rows with many calls in flight: a Go program without raysys would guard one
// piece of state with many callers like this.
type rawActor struct {
	inbox chan rawCall // closed by close
	done  sync.WaitGroup
}

type rawCall struct {
	arg    int
	result *int
	batch  *sync.WaitGroup
}

func newRawActor() *rawActor {
	a := &rawActor{inbox: make(chan rawCall, batch)}
	a.done.Go(func() {
		state := 0
		for c := range a.inbox {
			state += c.arg
			*c.result = state
			c.batch.Done()
		}
	})
	return a
}

func (a *rawActor) close() {
	close(a.inbox)
	a.done.Wait()
}

// rising checks that the calls of one caller took effect in the order they were made: every grain's count went up.
func rising(results []int, grains int) error {
	for i := grains; i < len(results); i++ {
		if results[i] <= results[i-grains] {
			return errors.New("wrong result: calls of one caller to one grain changed places")
		}
	}
	return nil
}

// call makes len(refs) calls, spread over to, and gets their results.
func call(ctx context.Context, to []grains.Grain[counter], refs []raysys.Ref[int], results []int) error {
	for i := range refs {
		refs[i] = add.Call(ctx, to[i%len(to)], 1)
	}
	for i, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			return err
		}
		results[i] = v
	}
	return rising(results, len(to))
}

// rawActors are as many as a row has grains.
type rawActors []*rawActor

func newRawActors(n int) rawActors {
	list := make(rawActors, n)
	for i := range list {
		list[i] = newRawActor()
	}
	return list
}

// run makes len(results) calls, spread over the actors, and waits for all.
func (to rawActors) run(results []int) error {
	var wg sync.WaitGroup
	wg.Add(len(results))
	for i := range results {
		to[i%len(to)].inbox <- rawCall{1, &results[i], &wg}
	}
	wg.Wait()
	return rising(results, len(to))
}

func (to rawActors) close() {
	for _, a := range to {
		a.close()
	}
}

// besideActors compares calls to so many grains with as many raw actors. Their limit is not an actor's: actors are the
// business of other packages.
func (o operation) besideActors(limit string, n int) func(context.Context, Plan) (measured, error) {
	measure := o.beside(limit, func() bare { return newRawActors(n) })
	return func(ctx context.Context, p Plan) (measured, error) {
		m, err := measure(ctx, p)
		m.note("note", "the raw limit is a channel and one goroutine with an answer for each call; a tell to a stock protoactor actor, without an answer, made 7-9M/s on 2 cores")
		return m, err
	}
}

// The grains of the row, and how many ticks or Tells each gets in one operation. With so many grains the wheel of timers, which
// turns each millisecond, asks for more ticks than the grains can run.
const (
	tickedGrains = 10_000
	ticksEach    = 20
)

// ticker counts ticks and Tells, and says when it has had all of an operation.
type ticker struct {
	n    int
	stop func()
}

// unticked waits for the tickers of this process: one operation at a time.
var unticked sync.WaitGroup

func (t *ticker) begin(ctx context.Context, times int) (err error) {
	t.stop, err = grains.Every(ctx, time.Nanosecond, func(context.Context) error {
		if t.count(times) {
			t.stop()
		}
		return nil
	})
	return err
}

func (t *ticker) told(_ context.Context, times int) error {
	t.count(times)
	return nil
}

// count reports whether this was the last one of the operation.
func (t *ticker) count(times int) bool {
	if t.n++; t.n < times {
		return false
	}
	t.n = 0
	unticked.Done()
	return true
}

var (
	tickers     = grains.DefineIn[ticker](functions, "ticker")
	tickerBegin = grains.Action(tickers, "begin", (*ticker).begin)
	tickerTold  = grains.Action(tickers, "told", (*ticker).told)
)

// ticks compares the ticks of timers with Tells to as many grains.
func ticks(ctx context.Context, p Plan) (measured, error) { return ticksOf(ctx, p, tickedGrains) }

func ticksOf(ctx context.Context, p Plan, n int) (m measured, err error) {
	to := make([]grains.Grain[ticker], n)
	for i := range to {
		to[i] = tickers.Get(strconv.Itoa(i))
	}
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		// A Tell that fails ends the row, so nobody waits for those that are left then.
		all := func(f grains.Act[ticker, int], rounds int) func() error {
			return func() error {
				unticked.Add(n)
				for range rounds {
					for i := range to {
						if err := f.Tell(driver, to[i], ticksEach); err != nil {
							return err
						}
					}
				}
				unticked.Wait()
				return nil
			}
		}
		m, err = compareRates(ctx, p, side{n * ticksEach, all(tickerBegin, 1)}, side{n * ticksEach, all(tickerTold, ticksEach)})
		return err
	})
	m.limit = "a Tell for each, one driver"
	m.latencyOf = "20 ticks of each grain, first timer to last tick"
	m.note("grains", n)
	return m, err
}
