package bench

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

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
