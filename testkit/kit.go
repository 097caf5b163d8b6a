package testkit

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// seedVariable repeats a run.
const seedVariable = "RAYSYS_TESTKIT_SEED"

// closeGrace bounds the wait for what still runs when a test ends, in virtual time where the test is.
const closeGrace = 10 * time.Second

// Kit is one node under test.
type Kit struct {
	t       testing.TB
	node    *system.Node
	ctx     context.Context
	seed    uint64
	rng     *rand.Rand
	virtual bool
}

type options struct {
	cfg   system.Config
	seed  uint64
	loose bool
}

// Option changes a Kit.
type Option func(*options)

// Config starts the node from cfg: its table, resources and bounds. Seed and Inspect are the Kit's.
func Config(cfg system.Config) Option { return func(o *options) { o.cfg = cfg } }

// Table uses the functions of t alone instead of the process-wide table.
func Table(t *raysys.Table) Option { return func(o *options) { o.cfg.Table = t } }

// CPU gives the node n CPUs, whatever the machine has.
func CPU(n float64) Option { return func(o *options) { o.cfg.Resources.CPU = n } }

// Seed fixes the seed, which is random otherwise. RAYSYS_TESTKIT_SEED wins over it.
func Seed(n uint64) Option { return func(o *options) { o.seed = n } }

// Loose hands values over without the codec and without watching them.
func Loose() Option { return func(o *options) { o.loose = true } }

// New starts a node for the test. It is closed when the test ends, and then checked for values that changed and for
// goroutines that were left behind.
func New(t testing.TB, opts ...Option) *Kit {
	t.Helper()
	return start(t, false, opts)
}

// Virtual runs f with a Kit in virtual time (testing/synctest): clocks stand still while any goroutine can run, and
// jump to the next timer when all wait. Everything f starts must end with it, real network and processes cannot be
// used, and the test fails where all goroutines wait for ever.
func Virtual(t *testing.T, f func(k *Kit), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(start(t, true, opts))
	})
}

func start(t testing.TB, virtual bool, opts []Option) *Kit {
	t.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	k := &Kit{t: t, seed: pickSeed(t, o.seed), virtual: virtual}
	k.rng = rand.New(rand.NewPCG(k.seed, 0))
	t.Logf("testkit: seed %d (%s=%d repeats it)", k.seed, seedVariable, k.seed)

	o.cfg.Seed = k.seed
	var watch *strict
	if !o.loose {
		watch = newStrict()
		o.cfg.Inspect = watch
	}
	n, err := system.New(o.cfg)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	k.node = n
	mark := markGoroutines()
	k.ctx = n.Context(context.Background())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("testkit: %v", err)
		}
		if watch != nil {
			for _, c := range watch.changed() {
				t.Errorf("testkit: %s", c)
			}
		}
		for _, stack := range mark.left() {
			t.Errorf("testkit: a goroutine was left behind; end it before the task returns, or with its context:\n%s", stack)
		}
	})
	return k
}

func pickSeed(t testing.TB, fixed uint64) uint64 {
	if v := os.Getenv(seedVariable); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("testkit: %s=%q: give a whole number", seedVariable, v)
		}
		return n
	}
	for fixed == 0 {
		var b [8]byte
		crand.Read(b[:]) // never fails, says its package
		fixed = binary.LittleEndian.Uint64(b[:])
	}
	return fixed
}

// Context is the test's driver context.
func (k *Kit) Context() context.Context { return k.ctx }

// Node is the node under test.
func (k *Kit) Node() *system.Node { return k.node }

// Seed is the seed of this run.
func (k *Kit) Seed() uint64 { return k.seed }

// Rand is a source seeded by it, for the test's own draws. It is not safe for concurrent use.
func (k *Kit) Rand() *rand.Rand { return k.rng }

// Advance lets d of virtual time pass, and everything that is due in it run.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	k.needVirtual("Advance")
	<-time.After(d)
	synctest.Wait()
}

// Settle waits until every other goroutine of the virtual test waits for something.
func (k *Kit) Settle() {
	k.t.Helper()
	k.needVirtual("Settle")
	synctest.Wait()
}

func (k *Kit) needVirtual(verb string) {
	k.t.Helper()
	if !k.virtual {
		k.t.Fatalf("testkit: %s works in virtual time only: run the test in testkit.Virtual", verb)
	}
}

// Eventually waits until cond holds and fails the test when it does not within limit. It is for facts that nothing
// announces; where there is an event, wait for that.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("testkit: not within %v: %s", limit, what)
		}
	}
}
