package protoactor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/raysys/raysys"
)

// requests is the cluster.Context of a node. It hears at once of nodes that are gone, where proto.Actor's own waits for its timeout.
type requests struct {
	n *node
	c *cluster.Cluster

	mu   sync.Mutex                   // guards the rest
	open map[string]map[*waiting]bool // what waits for answers of another node, by the address of its actors
	dead map[string]bool              // addresses of nodes that are no members any more
}

func newRequests(n *node, c *cluster.Cluster) *requests {
	return &requests{n: n, c: c, open: map[string]map[*waiting]bool{}, dead: map[string]bool{}}
}

// NoRetry has a request run at most once: it fails with actor.ErrDeadLetter when its actor or the node of that is gone, where it
// may have run. Without it such a request is tried again, three times in all or as cluster.WithRetryCount says.
func NoRetry() cluster.GrainCallOption { return cluster.WithRetryCount(1) }

// Request implements cluster.Context.
func (r *requests) Request(identity, kind string, message any, opts ...cluster.GrainCallOption) (any, error) {
	q := r.request(identity, kind, message, opts)
	if err := q.send(); err != nil {
		return nil, err
	}
	return q.answer()
}

// RequestFuture implements cluster.Context. It returns when the request is sent, so requests of one goroutine to one actor
// arrive in their order.
func (r *requests) RequestFuture(identity, kind string, message any, opts ...cluster.GrainCallOption) (*actor.Future, error) {
	q := r.request(identity, kind, message, opts)
	if err := q.send(); err != nil {
		return nil, err
	}
	f := actor.NewFuture(r.c.ActorSystem, max(time.Until(q.until), 0)) // below 0 it would have no timer
	go func() {
		answer, err := q.answer()
		switch {
		case err == nil:
			r.c.ActorSystem.Root.Send(f.PID(), answer)
		case !errors.Is(err, actor.ErrTimeout): // else it ends by its own timer
			r.c.ActorSystem.Root.Send(f.PID(), &actor.DeadLetterResponse{})
		}
	}()
	return f, nil
}

// request is one request with its attempts.
type request struct {
	*requests
	identity, kind string
	message        any
	cfg            *cluster.GrainCallConfig
	until          time.Time

	tries int
	pid   *actor.PID
	wait  *waiting // of the attempt that runs
}

func (r *requests) request(identity, kind string, message any, opts []cluster.GrainCallOption) *request {
	cfg := cluster.NewGrainCallOptions(r.c)
	for _, o := range opts {
		o(cfg)
	}
	return &request{requests: r, identity: identity, kind: kind, message: message, cfg: cfg, until: time.Now().Add(cfg.Timeout)}
}

// send begins an attempt. Who waits is known before the message leaves, so no answer and no death is missed.
func (q *request) send() error {
	q.pid = q.n.pids.get(q.identity, q.kind)
	if q.pid == nil {
		ctx, cancel := context.WithDeadlineCause(q.n.ctx, q.until, q.timeout())
		defer cancel()
		pid, err := q.n.locate(ctx, q.identity, q.kind)
		if err != nil && !time.Now().Before(q.until) {
			err = fmt.Errorf("%w: %w", q.timeout(), err)
		}
		if err != nil {
			return fmt.Errorf("request to %s/%s: %w", q.kind, q.identity, err)
		}
		q.pid = pid
		q.n.pids.set(q.identity, q.kind, pid)
	}
	q.wait = q.await(q.pid.Address)
	q.cfg.Context.RequestWithCustomSender(q.pid, q.n.packed(q.pid, q.message), q.wait.pid)
	return nil
}

// answer waits for the answer, and sends the request again where its actor is gone.
func (q *request) answer() (any, error) {
	for {
		answer, err := q.attempt()
		if !errors.Is(err, errGone) {
			return answer, err
		}
		q.n.pids.remove(q.identity, q.kind, q.pid)
		if q.tries = q.cfg.RetryAction(q.tries); q.tries >= q.cfg.RetryCount {
			return nil, fmt.Errorf("request to %s/%s: %w: %w, at %s, attempt %d", q.kind, q.identity, actor.ErrDeadLetter, err, q.pid, q.tries)
		}
		if err := q.send(); err != nil {
			return nil, err
		}
	}
}

func (q *request) attempt() (any, error) {
	defer q.forget(q.wait)
	t := time.NewTimer(time.Until(q.until))
	defer t.Stop()
	select {
	case answer := <-q.wait.got:
		f, ok := answer.(failure)
		switch {
		case !ok:
			return answer, nil
		case errors.Is(f.err, errGone):
			return nil, f.err
		}
		return nil, fmt.Errorf("request to %s/%s: %w", q.kind, q.identity, f.err)
	case <-t.C:
		return nil, fmt.Errorf("request to %s/%s: %w", q.kind, q.identity, q.timeout())
	case <-q.n.ctx.Done():
		return nil, fmt.Errorf("request to %s/%s: %w", q.kind, q.identity, context.Cause(q.n.ctx))
	}
}

// timeout matches what proto.Actor's own context returns, and what its futures do.
func (q *request) timeout() error {
	return fmt.Errorf("%w: no answer within %v: %w", actor.ErrTimeout, q.cfg.Timeout, context.DeadlineExceeded)
}

// errGone is what one hears who waits for an answer in vain.
var errGone = fmt.Errorf("%w: the actor, or its node, is gone", raysys.ErrOutcomeUnknown)

// failure is why there is no answer.
type failure struct{ err error }

// waiting is the process to which an actor answers.
type waiting struct {
	pid *actor.PID
	at  string   // the address of the actor
	got chan any // capacity 1: the first answer counts
}

func (w *waiting) take(answer any) {
	select {
	case w.got <- answer:
	default:
	}
}

// SendUserMessage implements actor.Process.
func (w *waiting) SendUserMessage(_ *actor.PID, message any) {
	answer := actor.UnwrapEnvelopeMessage(message)
	if _, ok := answer.(*actor.DeadLetterResponse); ok {
		answer = failure{errGone}
	}
	w.take(answer)
}

// Offer is called by package remote: a message is taken at once.
func (w *waiting) Offer(pid *actor.PID, message any, system bool, _ func(*actor.ActorProcess) bool) bool {
	if system {
		w.SendSystemMessage(pid, message)
	} else {
		w.SendUserMessage(pid, message)
	}
	return true
}

// Failed is called by package system where the request, or the answer to it, cannot travel: no other attempt can deliver it.
func (w *waiting) Failed(err error) { w.take(failure{err}) }

// SendSystemMessage implements actor.Process.
func (w *waiting) SendSystemMessage(_ *actor.PID, message any) { w.take(message) }

// Stop implements actor.Process.
func (w *waiting) Stop(*actor.PID) {}

// await registers one that waits for an answer from an address.
func (r *requests) await(at string) *waiting {
	registry := r.c.ActorSystem.ProcessRegistry
	w := &waiting{at: at, got: make(chan any, 1)}
	w.pid, _ = registry.Add(w, "request"+registry.NextId())
	if at == registry.Address {
		return w
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead[at] { // it died since its PID was found
		w.take(failure{errGone})
	}
	if r.open[at] == nil {
		r.open[at] = map[*waiting]bool{}
	}
	r.open[at][w] = true
	return w
}

func (r *requests) forget(w *waiting) {
	r.c.ActorSystem.ProcessRegistry.Remove(w.pid)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open[w.at], w)
	if len(r.open[w.at]) == 0 {
		delete(r.open, w.at)
	}
}

// gone tells those that wait for answers from an address that its node is no member any more.
func (r *requests) gone(at string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead[at] = true
	for w := range r.open[at] {
		w.take(failure{errGone})
	}
}
