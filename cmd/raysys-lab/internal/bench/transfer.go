package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/raysys/raysys"
)

const streamName = "raw TCP stream to another process, into memory as fresh"

// Ways in which the other process gets an object, each beside a raw stream into the same kind of memory.
const (
	viewFirst    = "first"    // View, by a process that had none before: cold memory
	viewRepeated = "repeated" // View again, into segments that are warm by then
	getCopy      = "get"      // Get, which hands out memory that is never used again
)

// ways has, for each way to read an object, the memory that the raw stream reads into.
var ways = []struct{ name, into string }{{viewFirst, intoFresh}, {viewRepeated, intoWarm}, {getCopy, intoHeap}}

// transfer measures how long an object takes from this process into another, until it can be read there.
func transfer(ctx context.Context, p Plan) (m measured, err error) {
	data := pattern(p.size(gigabyte))
	plain, err := transferBy(ctx, p, data, "")
	if err != nil {
		return m, err
	}
	// The worst of View is on top; Get and TLS have marks of their own.
	m = worst(plain[:2], func(v *variant) float64 { return v.limitValue / v.value })
	all := m.detail["variants"].(map[string]any)
	all[getCopy] = plain[2].figures()

	dir, err := os.MkdirTemp("", "raysys-bench-")
	if err != nil {
		return m, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tls, err := transferBy(ctx, p, data, dir)
	if err != nil {
		return m, fmt.Errorf("with TLS: %w", err)
	}
	for _, v := range tls {
		all["tls_"+v.name] = v.figures()
	}
	m.limit, m.latencyOf = streamName, "from the begin of View to the call of its function"
	m.note("bytes", sized(len(data)))
	m.note("note", "first: cold memory on both sides; repeated: warm segments, and the raw side into the same memory again; "+
		"get: the heap's, new on both sides; tls_*: both over TLS 1.3. Chunks of objects are checksummed, raw streams are not")
	return m, nil
}

// transferBy measures all ways, with sharing off. Each round has a receiving process of its own.
func transferBy(ctx context.Context, p Plan, data []byte, certs string) ([]*variant, error) {
	variants := make([]*variant, len(ways))
	for i, w := range ways {
		variants[i] = &variant{name: w.name, rate: true, measured: measured{latency: &hist{}}}
	}
	c := &cluster{name: clusterName(), plan: p, options: &options{NoSharing: true, Certs: certs}}
	if certs != "" {
		names := []string{"driver"}
		for i := range p.Rounds + 2 {
			names = append(names, "worker-"+strconv.Itoa(i+1))
		}
		if err := makeCertificates(certs, c.name, names); err != nil {
			return nil, err
		}
	}
	err := c.run(ctx, 2, func(driver context.Context, c *cluster) (err error) {
		s, err := newSpring(ctx, certs, data)
		if err != nil {
			return err
		}
		defer s.close()
		for round := range p.Rounds {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := c.transferRound(driver, p, s, certs, variants); err != nil {
				return err
			}
			if round == p.Rounds-1 {
				return nil
			}
			if err := c.renew(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, v := range variants {
		v.value, v.limitValue = median(v.rounds), median(v.limits)
	}
	return variants, errors.Join(err, c.sweep(ctx))
}

// renew puts a new process in the place of the newest worker. The oldest stays, so that shards have a leader meanwhile.
func (c *cluster) renew(ctx context.Context) error {
	last := c.workers[len(c.workers)-1]
	if err := last.end(); err != nil {
		return err
	}
	return c.replace(ctx, last)
}

// transferRound has the newest worker get the data in all ways, each in turn with a raw stream.
func (c *cluster) transferRound(driver context.Context, p Plan, s *spring, certs string, variants []*variant) (err error) {
	worker := c.names[len(c.names)-1]
	d, err := launchDrain(driver, p, s, certs, worker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	for i, w := range ways {
		took, err := c.move(driver, worker, s.data, w.name == getCopy)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		bare, err := d.drain(w.into)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		v := variants[i]
		v.rounds = append(v.rounds, gb(len(s.data), took.Seconds()))
		v.limits = append(v.limits, gb(len(s.data), bare.Seconds()))
		v.latency.add(took)
	}
	return nil
}

// move puts data, has a worker look at it, and frees it.
func (c *cluster) move(driver context.Context, worker string, data []byte, get bool) (time.Duration, error) {
	ref := raysys.Put(driver, data)
	before, err := c.sent(driver)
	if err != nil {
		return 0, err
	}
	saw, err := c.look(driver, worker, data, glance{Object: ref.Handle(), Get: get})
	if err != nil {
		return 0, err
	}
	after, err := c.sent(driver)
	if err != nil {
		return 0, err
	}
	if len(data) > raysys.ObjectSize && after-before < uint64(len(data)) {
		return 0, fmt.Errorf("%d bytes of %d were sent: the object came another way", after-before, len(data))
	}
	ref.Release()
	return saw.Open, c.empty(driver)
}
