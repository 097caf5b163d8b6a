package demo

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
)

// Server is the grain that answers observations with actions. It is a stateless worker, one per CPU: which of them
// answers makes no difference, since a request names the weights it asks.
type Server struct {
	policy rl.Policy
	loaded raysys.TaskID // of the weights the policy acts by
	obs    [4]float32
	action [1]float32
}

// Request asks for an action. An array and not a slice, so that a client may write its next observation over this one.
type Request struct {
	Weights raysys.Handle[rl.Weights]
	Obs     [4]float32
}

var (
	servers = grains.Define[Server]("cartpole-server", grains.StatelessWorker(0))
	act     = grains.Method(servers, "act", (*Server).Act)
)

// Act returns the most probable action. The first request of a worker, or the first after an update of the weights,
// fetches them.
func (s *Server) Act(ctx context.Context, r Request) (int, error) {
	ref := r.Weights.Ref()
	if id := ref.ID(); s.policy == nil || id != s.loaded || id.IsZero() { // references of Ready all have the zero id
		w, err := ref.Get(ctx)
		if err != nil {
			return 0, fmt.Errorf("load weights: %w", err)
		}
		if s.policy, err = policyOf(w); err != nil {
			return 0, err
		}
		s.loaded = id
	}
	s.obs = r.Obs // the observation of the request itself would have to be allocated
	s.policy.Act(s.obs[:], nil, s.action[:], nil)
	return int(s.action[0]), nil
}

// Served is how a time of serving went.
type Served struct {
	Requests int
	Took     time.Duration
	// P50 and P99 are the time from a call to its action, as a client sees it.
	P50, P99 time.Duration
}

// clientsPerCPU keeps every worker busy while other clients step their poles, without measuring a queue.
const clientsPerCPU = 2

// observePause is how often Serve tells how far it is.
const observePause = 100 * time.Millisecond

// Serve lets clients play episodes for o.Serve, each step an action asked of the policy, and measures the requests.
// observe, where it is not nil, is told from time to time how long that has gone on, at first at once. ctx must come
// from a runtime.
func Serve(ctx context.Context, w raysys.Ref[rl.Weights], o Options, observe func(time.Duration)) (Served, error) {
	if err := o.Validate(); err != nil {
		return Served{}, err
	}
	if observe == nil {
		observe = func(time.Duration) {}
	}
	observe(0)
	clients := make([]client, clientsPerCPU*runtime.GOMAXPROCS(0))
	began := time.Now()
	var stop atomic.Bool // a client failed
	var wg sync.WaitGroup
	for i := range clients {
		c := &clients[i]
		// Goroutines submit in no order of their own, so each counts its calls on a branch.
		branch := raysys.Branch(ctx, i)
		wg.Go(func() {
			c.err = c.play(branch, w.Handle(), stream{o.Seed, 0, kClient + i}.seed(), began.Add(o.Serve), &stop)
			if c.err != nil {
				stop.Store(true)
			}
		})
	}
	ended := make(chan struct{}) // closed by the goroutine that waits for the clients
	go func() { wg.Wait(); close(ended) }()
	watch(ended, began, observe)
	took := time.Since(began)

	var all latencies
	for i := range clients {
		if err := clients[i].err; err != nil {
			return Served{}, fmt.Errorf("serve client %d: %w", i, err)
		}
		all.add(&clients[i].latencies)
	}
	return Served{all.n, took, all.quantile(0.50), all.quantile(0.99)}, nil
}

// watch calls observe until ended is closed.
func watch(ended <-chan struct{}, began time.Time, observe func(time.Duration)) {
	tick := time.NewTicker(observePause)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case now := <-tick.C:
			observe(now.Sub(began))
		}
	}
}
