package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// Violation is a law that a round broke.
type Violation struct {
	Law      string `json:"law"`
	Workload string `json:"workload,omitempty"`
	Detail   string `json:"detail"` // what happened, with the part of the history that shows it
}

// thinkTime is the unit of the pauses of clients.
const thinkTime = 500 * time.Millisecond

// drainLimit is how long the drain of a plan may take.
const drainLimit = time.Minute

// maxViolations bounds what one round reports: more of a kind say nothing new.
const maxViolations = 10

// patience bounds one operation of a client, faults of any plan included.
const patience = 3 * time.Minute

// cluster is what a round knows of the nodes under test. Number 0 is the node of the round itself, which no fault ends.
type cluster interface {
	Size() int
	// Node is node i in its current life; nil while it is down, or out of this process.
	Node(i int) *system.Node
	// Lives tells the present life of each node from others by ==. What a node has in memory ends with its life.
	Lives() []any
	// Activations are what grains reported to the recorder of this name: local, or one of each process.
	Activations(name string, local *testkit.Activations) *testkit.Activations
}

// round is one run of the program.
type round struct {
	t    testing.TB
	on   cluster
	seed uint64
	over chan struct{} // closed by finish: clients stop
	last sync.Once     // of finish
	wg   sync.WaitGroup
	busy atomic.Int64 // clients in an operation
	// doubt is how long a node may have let go of what it had before the test knows: two leases after its death, or the drain
	// that ends it.
	doubt time.Duration

	mu         sync.Mutex // guards the rest
	violations []Violation
	calm       time.Time // since when no fault acts; zero while faults may act
	counts     map[string]*count
}

// count is what clients of one workload were told.
type count struct {
	Answers int `json:"answers"`
	Errors  int `json:"errors"`
}

func newRound(t testing.TB, on cluster, o Round) *round {
	return &round{t: t, on: on, seed: o.Seed, over: make(chan struct{}), counts: map[string]*count{}, calm: time.Now(), doubt: 2*o.ttl() + drainLimit}
}

// workload is one part of the program, with a model of what it may be told.
type workload struct {
	name string
	// start begins its clients, by round.clients. end is called when they have all ended and no fault acts: it checks what they were
	// told and gives back what is still held.
	start func(r *round)
	end   func(r *round)
}

// violate reports a broken law.
func (r *round) violate(workload, law, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) < maxViolations {
		r.violations = append(r.violations, Violation{law, workload, fmt.Sprintf(format, args...)})
	}
}

// failing is a test whose failures are violations of a law, for the assertions of the testkit.
type failing struct {
	testing.TB
	r             *round
	workload, law string
}

// Errorf implements testing.TB.
func (f failing) Errorf(format string, args ...any) { f.r.violate(f.workload, f.law, format, args...) }

// Helper implements testing.TB.
func (failing) Helper() {}

// stormy says that faults act from now on.
func (r *round) stormy() { r.setCalm(time.Time{}) }

// quiet says that none does any more, and that what they left has ended.
func (r *round) quiet() { r.setCalm(time.Now()) }

func (r *round) setCalm(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm = at
}

// calmSince reports whether no fault acted since then.
func (r *round) calmSince(then time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.calm.IsZero() && !then.Before(r.calm)
}

func (r *round) count(workload string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[workload]
	if c == nil {
		c = &count{}
		r.counts[workload] = c
	}
	if err == nil {
		c.Answers++
	} else {
		c.Errors++
	}
}

// client is one caller, with draws of its own.
type client struct {
	*round
	workload string
	number   int
	rng      *rand.Rand
}

// clients starts n of them. Each does op again and again, with a pause of up to think between, on behalf of the node where,
// 0 being the round's own. op's context ends after patience.
func (r *round) clients(workload string, n int, think time.Duration, op func(c *client, ctx context.Context)) {
	for i := range n {
		c := &client{r, workload, i, rngOf(r.seed, workload, i)}
		r.wg.Go(func() {
			for {
				select {
				case <-r.over:
					return
				case <-time.After(time.Duration(c.rng.Int64N(int64(think))) + time.Millisecond):
				}
				node := r.on.Node(i % (r.on.Size() + 1))
				if node == nil {
					node = r.on.Node(0)
				}
				ctx, cancel := context.WithTimeout(node.Context(context.Background()), patience)
				r.busy.Add(1)
				op(c, ctx)
				r.busy.Add(-1)
				cancel()
			}
		})
	}
}

// rngOf makes the draws of one client.
func rngOf(seed uint64, workload string, number int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hash(workload)+uint64(number)))
}

// hash tells the draws of one workload from those of another.
func hash(s string) (h uint64) {
	for _, b := range []byte(s) {
		h = h*1099511628211 + uint64(b)
	}
	return h << 16
}

// attempt is one operation whose error is judged.
type attempt struct {
	c     *client
	what  string
	began time.Time
	lives []any
	node  *system.Node // of the client
}

// begin is called before an operation, of which what is a description for the report.
func (c *client) begin(ctx context.Context, format string, args ...any) attempt {
	return attempt{c, fmt.Sprintf(format, args...), time.Now(), c.on.Lives(), system.NodeOf(ctx)}
}

// excuses are the states that faults justify. All others, and errors without a state, are the program's or raysys' own.
var excuses = []error{
	raysys.ErrNodeDead, raysys.ErrUnreachable, raysys.ErrOutcomeUnknown, raysys.ErrNotDelivered, raysys.ErrSuspended, raysys.ErrMoved,
	raysys.ErrFenced, raysys.ErrClosed, raysys.ErrCancelled, raysys.ErrDeadline, raysys.ErrOverloaded, raysys.ErrNoCapacity,
}

// end judges the error, nil included: within patience there is an answer; without a fault there is no error; with faults it
// has a state that they justify, or one of also.
func (a attempt) end(err error, also ...error) {
	c := a.c
	c.count(c.workload, err)
	took := time.Since(a.began)
	switch {
	case took >= patience:
		c.violate(c.workload, "each call ends", "%s has no end after %v: %v", a.what, took, err)
	case err == nil:
	case a.node.Err() != nil:
		// The client died with its node: what it is told reaches no program.
	case c.calmSince(a.began):
		c.violate(c.workload, "without a fault no call fails", "%s: %v", a.what, err)
	case !matches(err, excuses) && !matches(err, also):
		c.violate(c.workload, "a fault ends a call with a typed error that it justifies", "%s: %v", a.what, err)
	}
}

// judge is end for an operation on objects. They are lost with a node, and names are forgotten with their object; safe says
// that the node of the client has the value, or had it, so that nothing is lost while that lives. What the nodes know of a
// death they may know before the dead node and the tests do, so that a doubtful error is judged later.
func (c *client) judge(a attempt, err error, safe bool, also ...error) {
	lost := append([]error{raysys.ErrObjectLost, raysys.ErrNotFound}, also...)
	switch {
	case err == nil || !matches(err, lost):
		a.end(err)
		return
	case !c.calmSince(a.began):
		<-time.After(c.doubt)
	}
	switch {
	case a.node.Err() != nil || !safe && !a.undisturbed():
		c.count(c.workload, err)
	default:
		c.violate(c.workload, "what no node took along is not lost", "%s: %v", a.what, err)
	}
}

// undisturbed reports whether no node ended since the attempt began.
func (a attempt) undisturbed() bool { return slices.Equal(a.c.on.Lives(), a.lives) }

func matches(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
}

// finish lets the clients end after the operation they are in.
func (r *round) finish() { r.last.Do(func() { close(r.over) }) }

// stop ends the clients, and reports those whose operation has no end.
func (r *round) stop() {
	r.finish()
	ended := make(chan struct{})
	go func() { r.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience + time.Minute):
		r.violate("", "each call ends", "%d clients are in a call %v after all faults were healed", r.busy.Load(), patience+time.Minute)
	}
}
