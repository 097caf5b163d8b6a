package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
)

// receivers is how many processes a broadcast goes to.
const receivers = 4

// broadcastRow measures one object to four processes at the same time, beside the same object to one, with processes of
// this host sharing memory and without.
func broadcastRow(ctx context.Context, p Plan) (m measured, err error) {
	data := pattern(p.size(broadcast))
	variants := []*variant{{name: "sent"}, {name: "shared"}}
	sent := make([]float64, len(variants))
	for i, v := range variants {
		v.latency = &hist{}
		o := options{NoSharing: v.name == "sent"}
		err := withObjects(ctx, p, receivers, o, func(driver context.Context, c *cluster) error {
			sent[i], err = c.broadcastRounds(driver, p, data, v)
			return err
		})
		if err != nil {
			return m, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	one, all, err := rawStreams(ctx, p, data)
	if err != nil {
		return m, err
	}
	m = worst(variants, func(v *variant) float64 { return v.value / v.limitValue })
	m.limit, m.latencyOf = "the same object to one process", "first call of a task that views it to the last result, four processes"
	details := m.detail["variants"].(map[string]any)
	for i, v := range variants {
		details[v.name].(map[string]any)["sizes_sent_by_source"] = figures(sent[i])
	}
	m.note("bytes", sized(len(data)))
	m.note("raw_streams", map[string]any{
		"one_us": figures(us(one)), "four_us": figures(us(all)), "ratio": figures(float64(all) / float64(one)),
		"of": "raw TCP from one process to one and to four others at the same time, into warm memory",
	})
	return m, nil
}

// broadcastRounds returns how many times its size the source sent, at the median.
func (c *cluster) broadcastRounds(driver context.Context, p Plan, data []byte, v *variant) (float64, error) {
	var sent []float64
	for round := range p.Rounds + 1 {
		if err := context.Cause(driver); err != nil {
			return 0, err
		}
		one, _, err := c.spread(driver, c.names[:1], data)
		if err != nil {
			return 0, err
		}
		all, out, err := c.spread(driver, c.names, data)
		if err != nil {
			return 0, err
		}
		if round == 0 { // segments were made, and connections
			continue
		}
		v.rounds, v.limits = append(v.rounds, us(all)), append(v.limits, us(one))
		v.latency.add(all)
		sent = append(sent, float64(out)/float64(len(data)))
	}
	v.value, v.limitValue = median(v.rounds), median(v.limits)
	return median(sent), nil
}

// spread puts data and has workers look at it at the same time.
func (c *cluster) spread(driver context.Context, workers []string, data []byte) (time.Duration, uint64, error) {
	ref := raysys.Put(driver, data)
	before, err := c.sent(driver)
	if err != nil {
		return 0, 0, err
	}
	errs := make([]error, len(workers))
	var all sync.WaitGroup
	begin := time.Now()
	for i, w := range workers {
		all.Go(func() { _, errs[i] = c.look(driver, w, data, glance{Object: ref.Handle()}) })
	}
	all.Wait()
	took := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	after, err := c.sent(driver)
	if err != nil {
		return 0, 0, err
	}
	ref.Release()
	return took, after - before, c.empty(driver)
}

// rawStreams measures the raw limit of a broadcast: the same bytes over one raw connection, and over four at once.
func rawStreams(ctx context.Context, p Plan, data []byte) (one, all time.Duration, err error) {
	s, err := newSpring(ctx, "", data)
	if err != nil {
		return 0, 0, err
	}
	defer s.close()
	var drains []*process
	defer func() {
		for _, d := range drains {
			err = errors.Join(err, d.end())
		}
	}()
	for range receivers {
		d, err := launchDrain(ctx, p, s, "", "")
		if err != nil {
			return 0, 0, err
		}
		drains = append(drains, d)
	}
	var ones, alls []float64
	for round := range p.Rounds + 1 {
		if one, err = drains[0].drain(intoWarm); err != nil {
			return 0, 0, err
		}
		errs := make([]error, receivers)
		var wg sync.WaitGroup
		begin := time.Now()
		for i, d := range drains {
			wg.Go(func() { _, errs[i] = d.drain(intoWarm) })
		}
		wg.Wait()
		all = time.Since(begin)
		if err := errors.Join(errs...); err != nil {
			return 0, 0, err
		}
		if round > 0 {
			ones, alls = append(ones, float64(one)), append(alls, float64(all))
		}
	}
	return time.Duration(median(ones)), time.Duration(median(alls)), nil
}
