package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
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

// share measures a View of an object of another process of this host, which maps it.
func share(ctx context.Context, p Plan) (m measured, err error) {
	data := pattern(p.size(gigabyte))
	m = measured{
		latency: &hist{}, latencyOf: "from the begin of View to the call of its function",
		limit: "open and map a file in memory of another process, of as many bytes",
	}
	var firsts, touches, firstTouches, bareTouches []float64
	err = withObjects(ctx, p, 2, options{}, func(driver context.Context, c *cluster) (err error) {
		bare, err := newMapped(ctx, p, data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bare.close()) }()
		for round := range p.Rounds + 1 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			first, second, err := c.shareRound(driver, data)
			if err != nil {
				return err
			}
			open, touch, err := bare.open()
			if err != nil {
				return err
			}
			if round == 0 { // connections were made
				continue
			}
			m.rounds, m.limits = append(m.rounds, us(second.Open)), append(m.limits, us(open))
			m.latency.add(second.Open)
			firsts, firstTouches = append(firsts, us(first.Open)), append(firstTouches, us(first.Touch))
			touches, bareTouches = append(touches, us(second.Touch)), append(bareTouches, us(touch))
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("bytes", sized(len(data)))
	m.note("first_share_us", figures(median(firsts)))
	m.note("first_share_of", "the first process that asks: the owner copies the value into memory that can be shared")
	m.note("touch_us", figures(median(touches)))
	m.note("touch_of", "reading a byte of every page for the first time, after View has called its function")
	m.note("first_share_touch_us", figures(median(firstTouches)))
	m.note("limit_touch_us", figures(median(bareTouches)))
	return m, err
}

// shareRound puts data and has both workers look at it, one after the other.
func (c *cluster) shareRound(driver context.Context, data []byte) (first, second seen, err error) {
	ref := raysys.Put(driver, data)
	before, err := c.sent(driver)
	if err != nil {
		return first, second, err
	}
	if first, err = c.look(driver, c.names[0], data, glance{Object: ref.Handle(), Touch: true}); err != nil {
		return first, second, err
	}
	if second, err = c.look(driver, c.names[1], data, glance{Object: ref.Handle(), Touch: true}); err != nil {
		return first, second, err
	}
	after, err := c.sent(driver)
	if err != nil {
		return first, second, err
	}
	if after != before {
		return first, second, fmt.Errorf("%d bytes were sent, and not shared: the processes cannot map each other's memory", after-before)
	}
	ref.Release()
	return first, second, c.empty(driver)
}

// mapped is the raw side: memory of this process that a child maps.
type mapped struct {
	child *process
	path  string
	n     int
	done  func() error
}

func newMapped(ctx context.Context, p Plan, data []byte) (*mapped, error) {
	path, done, err := shareable(data)
	if err != nil {
		return nil, err
	}
	child, err := launchReady(ctx, p, anywhere, childMap)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return &mapped{child, path, len(data), done}, nil
}

// open has the child map it, read a byte of every page, and put it back.
func (m *mapped) open() (open, touch time.Duration, err error) {
	line, err := m.child.ask(fmt.Sprint(m.path, " ", m.n))
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(line, (*int64)(&open), (*int64)(&touch)); err != nil {
		return 0, 0, fmt.Errorf("read what child measured, %q: %w", line, err)
	}
	return open, touch, nil
}

func (m *mapped) close() error { return errors.Join(m.child.end(), m.done()) }

// beMapper is the child: a path and a length on each line of its input.
func beMapper(_ context.Context, _ Plan, _ []string, in io.Reader, out io.Writer) error {
	return answerLines(in, out, func(line string) (string, error) {
		path, length, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(length)
		if err != nil {
			return "", fmt.Errorf("parent wrote %q, which is no path and length", line)
		}
		begin := time.Now()
		b, done, err := mapFile(path, n)
		if err != nil {
			return "", err
		}
		open := time.Since(begin)
		begin = time.Now()
		touched.Store(touch(b))
		took := time.Since(begin)
		return fmt.Sprint(int64(open), " ", int64(took)), done()
	})
}

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
