package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
)

// bulkTail measures small calls while large objects go the same way, beside the same calls while nothing does.
func bulkTail(ctx context.Context, p Plan) (m measured, err error) {
	p.Slice *= 4 // a p99 wants more than a median
	data := pattern(p.size(bulkBytes))
	m = measured{
		latency: &hist{}, latencyOf: "one grain call during transfers", limit: "p99 of the same call with nothing else under way",
	}
	var idles, bareIdles, bareBusies, moved []float64
	err = withObjects(ctx, p, 1, options{NoSharing: true}, func(driver context.Context, c *cluster) (err error) {
		b, err := newBareBulk(ctx, p, data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		g := counters.Get("bulk")
		if err := c.elsewhere(driver, g); err != nil {
			return err
		}
		call := one(func() error { _, err := add.Call(driver, g, 1).Get(driver); return err })
		for round := range p.Rounds + 1 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			idle, busy, bareIdle, bareBusy := &hist{}, &hist{}, &hist{}, &hist{}
			if _, err := call.loop(p.Slice, idle); err != nil {
				return err
			}
			n, err := during(func() error { _, err := call.loop(p.Slice, busy); return err }, func() error { return c.carry(driver, data) })
			if err != nil {
				return err
			}
			if err := c.empty(driver); err != nil {
				return err
			}
			if _, err := b.ping.loop(p.Slice, bareIdle); err != nil {
				return err
			}
			if _, err := during(func() error { _, err := b.ping.loop(p.Slice, bareBusy); return err }, b.stream); err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			p99 := func(h *hist) float64 { return us(h.quantile(0.99)) }
			m.rounds, m.limits = append(m.rounds, p99(busy)), append(m.limits, p99(idle))
			m.latency.merge(busy)
			idles, moved = append(idles, us(idle.quantile(0.5))), append(moved, float64(n))
			bareIdles, bareBusies = append(bareIdles, p99(bareIdle)), append(bareBusies, p99(bareBusy))
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("bytes", sized(len(data)))
	m.note("transfers_per_round", figures(median(moved)))
	m.note("idle_p50_us", figures(median(idles)))
	m.note("raw", map[string]any{
		"idle_p99_us": figures(median(bareIdles)), "during_p99_us": figures(median(bareBusies)), "ratio": figures(median(bareBusies) / median(bareIdles)),
		"of": "TCP ping-pong to another process, during raw streams of as many bytes to a third on the same CPUs",
	})
	return m, err
}

// during runs do while other is run again and again, and returns how often that was. One that has begun is waited for.
func during(do, other func() error) (n int, err error) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	began := make(chan struct{})
	go func() { // ends when stop is closed, and is waited for
		close(began)
		for {
			if err := other(); err != nil {
				ended <- err
				return
			}
			n++
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
		}
	}()
	<-began
	err = do()
	close(stop)
	return n, errors.Join(err, <-ended)
}

// carry moves data to the worker once.
func (c *cluster) carry(driver context.Context, data []byte) error {
	ref := raysys.Put(driver, data)
	defer ref.Release()
	_, err := c.look(driver, c.names[0], data, glance{Object: ref.Handle()})
	return err
}

// bareBulk is the raw side.
type bareBulk struct {
	echoes *echoes
	ping   side
	spring *spring
	drain  *process
}

func newBareBulk(ctx context.Context, p Plan, data []byte) (b *bareBulk, err error) {
	b = &bareBulk{}
	if b.echoes, err = newEchoes(ctx, p, 1); err != nil {
		return nil, err
	}
	b.ping = one(func() error { return b.echoes.callers[0].batch(1) })
	if b.spring, err = newSpring(ctx, "", data); err == nil {
		b.drain, err = launchDrain(ctx, p, b.spring, "", "")
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bareBulk) stream() error {
	took, err := b.drain.drain(intoWarm)
	if err == nil && took <= 0 {
		err = fmt.Errorf("a stream took %v", time.Duration(took))
	}
	return err
}

func (b *bareBulk) close() error {
	err := b.echoes.close()
	if b.drain != nil {
		err = errors.Join(err, b.drain.end())
	}
	if b.spring != nil {
		b.spring.close()
	}
	return err
}
