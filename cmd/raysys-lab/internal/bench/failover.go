package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/store"
)

// The number of the faults, and their bounds.
const (
	killsPerRound = 6 // so that the five rounds of the default make 30
	watchedGrains = 8 // of the node that goes; they lie in different shards
	goodWithin    = 90 * time.Second
	// betweenCalls keeps calls that fail at once from taking the CPU from those who repair.
	betweenCalls = time.Millisecond
)

// failover kills one worker after another and counts how long it takes to the first good call of grains it held.
func failover(ctx context.Context, p Plan) (measured, error) {
	return failovers(ctx, p, []int{2, 3, 5}, p.Rounds*killsPerRound, fault{
		name: "SIGKILL of a worker", strike: (*process).strike, deadline: 5 * time.Second,
	})
}

// failoverSilence stops one worker after another, whose silence has to outlast its lease.
func failoverSilence(ctx context.Context, p Plan) (measured, error) {
	m, err := failovers(ctx, p, []int{3}, p.Rounds, fault{
		name: "SIGSTOP of a worker", strike: (*process).stop, deadline: time.Second,
	})
	m.note("goal", "at most 2 TTL + 2 s, 22 s")
	return m, err
}

// fault is one way to end a node.
type fault struct {
	name   string
	strike func(*process) error
	// deadline of each call: a call to a node that is silent tells nothing.
	deadline time.Duration
}

func failovers(ctx context.Context, p Plan, nodes []int, faults int, f fault) (m measured, err error) {
	variants := make([]*variant, len(nodes))
	for i, n := range nodes {
		v := &variant{name: strconv.Itoa(n) + "_nodes", measured: measured{latency: &hist{}, limit: takeOverName}}
		if n < len(numerals) {
			v.name = numerals[n] + "_nodes"
		}
		variants[i] = v
		if err := withCluster(ctx, p, n, func(driver context.Context, c *cluster) error {
			return c.failovers(ctx, driver, v, faults, f)
		}); err != nil {
			return m, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	m = worst(variants, func(v *variant) float64 { return float64(v.latency.max) })
	m.latencyOf = f.name + " to the first good call of the last of " + strconv.Itoa(watchedGrains) + " grains it held"
	m.note("faults_per_variant", faults)
	m.note("nodes", "workers; the driver, which calls, is one more process")
	return m, nil
}

var numerals = [...]string{"no", "one", "two", "three", "four", "five"}

// failovers lets faults happen to the workers in turn, each of which is replaced.
func (c *cluster) failovers(ctx, driver context.Context, v *variant, faults int, f fault) error {
	kv, err := c.store("raysys/" + c.name + "/raw/")
	if err != nil {
		return err
	}
	defer kv.Close()
	keys := 0
	for i := range faults {
		victim := c.workers[0] // the oldest
		held, err := c.heldBy(driver, victim, &keys)
		if err != nil {
			return err
		}
		took, err := c.strike(driver, victim, held, f)
		if err != nil {
			return err
		}
		limit, err := takeOver(ctx, kv)
		if err != nil {
			return err
		}
		v.latency.add(took)
		v.rounds, v.limits = append(v.rounds, us(took)), append(v.limits, us(limit))
		v.value, v.limitValue = median(v.rounds), median(v.limits)
		if i == faults-1 {
			return nil
		}
		if err := c.replace(ctx, victim); err != nil {
			return err
		}
	}
	return nil
}

// heldBy activates new grains until the victim holds enough of them.
func (c *cluster) heldBy(ctx context.Context, victim *process, keys *int) ([]grains.Grain[counter], error) {
	var held []grains.Grain[counter]
	for limit := *keys + 200*len(c.workers); len(held) < watchedGrains; *keys++ {
		if *keys == limit {
			return nil, fmt.Errorf("only %d of %d new grains came to one of %d workers", len(held), 200*len(c.workers), len(c.workers))
		}
		g := counters.Get("held-" + strconv.Itoa(*keys))
		pid, err := where.Call(ctx, g).Get(ctx)
		if err != nil {
			return nil, fmt.Errorf("activate a grain: %w", err)
		}
		if pid == victim.pid() {
			held = append(held, g)
		}
	}
	return held, nil
}

// strike lets the fault happen and returns how long it took until every one of the grains answered from another process.
func (c *cluster) strike(ctx context.Context, victim *process, held []grains.Grain[counter], f fault) (time.Duration, error) {
	start := time.Now()
	if err := f.strike(victim); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, goodWithin, fmt.Errorf("no good call within %v of the %s", goodWithin, f.name))
	defer cancel()
	ask := where.With(raysys.Deadline(f.deadline))
	took, errs := make([]time.Duration, len(held)), make([]error, len(held))
	var wg sync.WaitGroup
	for i, g := range held {
		wg.Go(func() {
			for {
				pid, err := ask.Call(ctx, g).Get(ctx)
				if err == nil && pid != victim.pid() {
					took[i] = time.Since(start)
					return
				}
				if e := pause(ctx, betweenCalls); e != nil {
					errs[i] = errors.Join(e, err)
					return
				}
			}
		})
	}
	wg.Wait()
	longest := time.Duration(0)
	for _, t := range took {
		longest = max(longest, t)
	}
	return longest, errors.Join(errs...)
}

// replace starts a worker in the place of one that is gone, and waits until the cluster has settled. The worker ends with ctx:
// a driver's would end before end() lets the workers leave.
func (c *cluster) replace(ctx context.Context, gone *process) error {
	if err := gone.kill(); err != nil {
		return err
	}
	c.forget(gone)
	w, err := c.launch(ctx)
	if err != nil {
		return err
	}
	if _, err := w.ready(); err != nil {
		return err
	}
	return c.settled(ctx)
}

const takeOverName = "Consul session destroyed to its key locked by another"

// leaderKey is the key that is taken over in the raw limit of failover.
const leaderKey = "leader"

// raceTTL is longer than one race for the key takes.
const raceTTL = time.Minute

// takeOver is the raw limit of failover: how long it takes from the destruction of a session to another session that
// holds the key the first one held, which it watches.
func takeOver(ctx context.Context, kv store.KV) (time.Duration, error) {
	first, err := kv.NewSession(ctx, "bench-first", raceTTL)
	if err != nil {
		return 0, err
	}
	second, err := kv.NewSession(ctx, "bench-second", raceTTL)
	if err != nil {
		return 0, errors.Join(err, kv.Destroy(ctx, first))
	}
	if _, err := kv.Txn(ctx, []store.Op{store.Lock(leaderKey, nil, first)}); err != nil {
		return 0, errors.Join(err, kv.Destroy(ctx, first), kv.Destroy(ctx, second))
	}
	_, index, err := kv.List(ctx, leaderKey, store.Consistent)
	if err != nil {
		return 0, errors.Join(err, kv.Destroy(ctx, first), kv.Destroy(ctx, second))
	}
	type outcome struct {
		at  time.Time
		err error
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	held := make(chan outcome, 1)
	go func() {
		err := lockNext(watched, kv, second, index)
		held <- outcome{time.Now(), err}
	}()
	start := time.Now()
	err = kv.Destroy(ctx, first)
	if err != nil {
		stop()
	}
	o := <-held
	return o.at.Sub(start), errors.Join(err, o.err, kv.Destroy(ctx, second))
}

// lockNext locks the key when whoever holds it is gone.
func lockNext(ctx context.Context, kv store.KV, session string, index uint64) error {
	for {
		pairs, next, err := kv.Watch(ctx, leaderKey, index)
		if err != nil {
			return fmt.Errorf("watch the leader: %w", err)
		}
		index = next
		if len(pairs) > 0 && pairs[0].Session != "" {
			continue
		}
		for {
			_, err := kv.Txn(ctx, []store.Op{store.Lock(leaderKey, nil, session)})
			var refused *store.RefusedError
			if !errors.As(err, &refused) {
				return err
			}
			// Consul keeps a lock from others for a moment after its session went.
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The raw limit of moving an object between processes: one connection, on which as many bytes are written at once and
// read into memory of the same kind as the object's. Nothing is checked.

// Memory that a drain reads into.
const (
	intoFresh = "fresh" // given by the kernel for this
	intoWarm  = "warm"  // that of intoFresh again
	intoHeap  = "heap"  // the collector's, made for this
)

// spring is the writing end: whoever asks on a connection gets data.
type spring struct {
	*rawServer
	data []byte
}

// rawTransport is plain TCP, or TLS with the node's certificate.
func rawTransport(certs, node string) (link.Transport, error) {
	if certs == "" {
		return link.TCP(link.TCPConfig{}), nil
	}
	f := certified(certs, node)
	return link.LoadTLS(f.Cert, f.Key, f.CA)
}

func newSpring(ctx context.Context, certs string, data []byte) (*spring, error) {
	t, err := rawTransport(certs, "driver")
	if err != nil {
		return nil, fmt.Errorf("listen for raw streams: %w", err)
	}
	ln, err := t.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for raw streams: %w", err)
	}
	return &spring{newRawServer(ln, func(conn net.Conn) error {
		for ask := make([]byte, 1); ; {
			if _, err := io.ReadFull(conn, ask); err != nil {
				return err
			}
			if _, err := conn.Write(data); err != nil {
				return err
			}
		}
	}), data}, nil
}

// beDrain is the child that reads: ADDRESS BYTES CERTS NODE. Its parent writes the kind of memory, a line each, and
// gets the nanoseconds that it took.
func beDrain(ctx context.Context, _ Plan, args []string, in io.Reader, out io.Writer) error {
	n, err := positive("bytes of a stream", args[1])
	if err != nil {
		return err
	}
	t, err := rawTransport(args[2], args[3])
	if err != nil {
		return fmt.Errorf("connect to the raw end: %w", err)
	}
	conn, err := t.Dial(ctx, args[0])
	if err != nil {
		return fmt.Errorf("connect to the raw end: %w", err)
	}
	defer conn.Close()
	var warm []byte
	return answerLines(in, out, func(what string) (string, error) {
		var to []byte
		switch {
		case what == intoHeap:
			to = make([]byte, n)
		case what == intoFresh || what == intoWarm && warm == nil:
			var err error
			if to, err = fresh(n); err != nil {
				return "", err
			}
			warm = to
		case what == intoWarm:
			to = warm
		default:
			return "", fmt.Errorf("parent wrote %q, which is no memory", what)
		}
		begin := time.Now()
		if _, err := conn.Write([]byte{1}); err != nil {
			return "", fmt.Errorf("ask the raw end: %w", err)
		}
		if _, err := io.ReadFull(conn, to); err != nil {
			return "", fmt.Errorf("read from the raw end: %w", unexpected(err))
		}
		took := time.Since(begin)
		if to[0] != 1 {
			return "", errors.New("the raw end wrote something else")
		}
		return strconv.FormatInt(int64(took), 10), nil
	})
}

// launchDrain starts one.
func launchDrain(ctx context.Context, p Plan, s *spring, certs, node string) (*process, error) {
	return launchReady(ctx, p, anywhere, childDrain, s.address(), strconv.Itoa(len(s.data)), certs, node)
}

// drain has it read once.
func (c *process) drain(into string) (time.Duration, error) {
	line, err := c.ask(into)
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(line, 10, 64)
	return time.Duration(ns), err
}
