package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// adoptedTasks is how many tasks lose their submitter.
const adoptedTasks = 10_000

// adoptRow is in the catalogue of the tier.
func adoptRow() Row {
	return Row{
		Name: "adopt_10k", Unit: Latency, Named: true,
		measure: func(ctx context.Context, p Plan) (measured, error) { return adopt(ctx, p, adoptedTasks) },
		Operation: "SIGKILL of the process that submitted 10,000 tasks and alone has their values, " +
			"until 20 grains of two workers, which hold the references, have all values",
	}
}

// gate is a grain that is open or shut.
type gate struct{ open bool }

var (
	gates    = grains.DefineIn[gate](functions, "gate")
	gateOpen = grains.Method0(gates, "open", func(g *gate, _ context.Context) (bool, error) {
		g.open = true
		return true, nil
	})
	gateIsOpen = grains.Method0(gates, "is-open", func(g *gate, _ context.Context) (bool, error) { return g.open, nil }).ReadOnly()

	// untilOpen ends when the gate with the key is open.
	untilOpen = tasks.DefineIn(functions, "until-open", func(ctx context.Context, key string) (int, error) {
		for {
			open, err := gateIsOpen.Call(ctx, gates.Get(key)).Get(ctx)
			if err == nil && !open {
				err = pause(ctx, 10*time.Millisecond)
			}
			if err != nil || open {
				return 0, err
			}
		}
	})
	afterOpen = tasks.Define2In(functions, "after-open", func(_ context.Context, a, b int) (int, error) {
		ranHere.Add(1)
		return a + b, nil
	})
	// ran says how often the task before has run in the process that asks.
	ran = tasks.DefineIn(functions, "ran", func(context.Context, int) (int, error) { return int(ranHere.Load()), nil })
)

var ranHere atomic.Int64

// adopt has a process give references to n tasks away while they wait, lets the tasks end, kills the process, and has the
// holders ask for the values. What runs then runs again: no other process had the values.
func adopt(ctx context.Context, p Plan, n int) (m measured, err error) {
	m.latency = &hist{}
	var known, again []float64
	err = withObjects(ctx, p, 2, options{}, func(driver context.Context, c *cluster) error {
		kv, err := c.store("raysys/" + c.name + "/raw/") // goes with the cluster's own
		if err != nil {
			return err
		}
		defer kv.Close()
		var raw rawLog
		for round := range p.Rounds {
			d := death{name: "giver-" + strconv.Itoa(round), n: n, driver: driver, c: c}
			if err := d.happen(ctx); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			m.latency.add(d.took)
			m.rounds = append(m.rounds, us(d.took))
			known, again = append(known, us(d.known)/1000), append(again, float64(d.ran))
			start := time.Now()
			for written := 0; written < n; written += rawSegments * changesOfSegment {
				if err := raw.commit(ctx, kv); err != nil {
					return err
				}
			}
			m.limits = append(m.limits, us(time.Since(start)))
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.latencyOf = fmt.Sprintf("the kill to the last of %d values", n)
	m.limit = fmt.Sprintf("a segment of 8 KiB for each %d of the tasks set in Consul, 8 in flight", changesOfSegment)
	m.note("known_after_ms", figuresOf(known))
	m.note("ran_after_the_kill", figuresOf(again))
	m.note("nodes", "the driver, two workers, the process that is killed, Consul with its data on disk")
	return m, err
}

// changesOfSegment is how many records a segment of the raw limit may claim.
const changesOfSegment = 64

// death is one round.
type death struct {
	name   string // of the node that is killed
	n      int
	driver context.Context
	c      *cluster

	took, known time.Duration // since the kill
	ran         int
}

func (d *death) keeper(i int) grains.Grain[keeper] {
	return keepers.Get(d.name + "-" + strconv.Itoa(i))
}

func (d *death) happen(ctx context.Context) error {
	giver, err := launchReady(ctx, d.c.plan, anywhere, childGiver, d.c.name, d.c.plan.Consul, d.name, strconv.Itoa(d.n))
	if err != nil {
		return err
	}
	defer giver.kill()
	if _, err := gateOpen.Call(d.driver, gates.Get(d.name)).Get(d.driver); err != nil {
		return err
	}
	if _, err := giver.ask("settle"); err != nil {
		return err
	}
	before, err := d.runs()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := giver.strike(); err != nil {
		return err
	}
	known := make(chan error, 1)
	go func() { known <- d.untilKnown(start) }()
	var sums []raysys.Ref[int]
	for i := 0; i*refsOfOneCall < d.n; i++ {
		sums = append(sums, keeperSum.With(raysys.Deadline(goodWithin)).Call(d.driver, d.keeper(i)))
	}
	total := 0
	for _, s := range sums {
		v, err := s.Get(d.driver)
		if err != nil {
			return errors.Join(err, <-known)
		}
		total += v
	}
	d.took = time.Since(start)
	if err := errors.Join(<-known, expect(total, d.n*(d.n-1)/2)); err != nil {
		return err
	}
	after, err := d.runs()
	d.ran = after - before
	return err
}

// untilKnown waits until the driver does not see the node any more. There is nothing that tells.
func (d *death) untilKnown(start time.Time) error {
	ctx, cancel := context.WithTimeout(d.driver, goodWithin)
	defer cancel()
	for {
		s, err := d.c.driver.Status(ctx)
		if err != nil {
			return err
		}
		if d.known = time.Since(start); len(s.Nodes) == len(d.c.workers)+1 {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the death of %s to be known: %w", d.name, err)
		}
	}
}

// runs is how many tasks have run in the workers.
func (d *death) runs() (total int, err error) {
	for _, w := range d.c.names {
		n, err := ran.With(on(w)...).Go(d.driver, 0).Get(d.driver)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// giveRefs is the child that submits the tasks. It is ready when the holders have the references, and answers when the
// tasks have settled.
func giveRefs(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	n, err := positive("number of references", args[3])
	if err != nil {
		return err
	}
	p.Node = member(p.Node, args[0], args[1], args[2], system.Driver)
	return withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		d := death{name: args[2]}
		first := untilOpen.Go(driver, d.name)
		pending, err := giveAway(driver, afterOpen, first, n, d.keeper)
		if err != nil {
			return err
		}
		return answerLines(in, out, func(string) (string, error) {
			_, rest, err := raysys.Wait(driver, pending, n)
			return "settled", errors.Join(err, expect(len(rest), 0))
		})
	})
}
