package testkit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/system"
)

// closeGrace bounds the wait for what still runs when a test ends, in virtual time where the test is.
const closeGrace = 10 * time.Second

// Kit is one node under test, or with Nodes a cluster of them and a node of the test's own.
type Kit struct {
	t       testing.TB
	node    *system.Node
	cluster *Cluster // nil without Nodes
	ctx     context.Context
	seed    uint64
	rng     *rand.Rand
	virtual bool
	drew    atomic.Bool // the test has asked for the seed or for draws from it
}

type options struct {
	cfg   system.Config
	seed  uint64
	loose bool
	nodes int
	ttl   time.Duration
	each  func(i int, cfg *system.Config)
	fakes map[*core.Entry]detour.Fake
	bad   error // what is wrong with options

	// of Processes
	consul *ConsulServer
	env    []string
	envOf  func(i int) []string
	wrap   func(i int) []string
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

// New starts a node, or with Nodes a cluster, for the test. It is closed when the test ends, and then checked for values
// that changed and for goroutines that were left behind. With RAYSYS_TESTKIT_SEEDS
// a seed that the test failed with before is used again.
func New(t testing.TB, opts ...Option) *Kit {
	t.Helper()
	o := collect(opts)
	return start(t, t.Name(), false, drawSeeds(t, o.seed)[0], o)
}

// Virtual runs f with a Kit in virtual time (testing/synctest): clocks stand still while any goroutine can run, and
// jump to the next timer when all wait. Everything f starts must end with it, real network and processes cannot be
// used, and the test fails where all goroutines wait for ever. With RAYSYS_TESTKIT_SEEDS, before
// a new seed f runs with those that it failed with before, as subtests.
func Virtual(t *testing.T, f func(k *Kit), opts ...Option) {
	t.Helper()
	o := collect(opts)
	shardlog.Warm()
	for _, d := range drawSeeds(t, o.seed) {
		run := func(in *testing.T) {
			synctest.Test(in, func(in *testing.T) { f(start(in, t.Name(), true, d, o)) })
		}
		if d.saved {
			t.Run(fmt.Sprintf("seed=%d", d.seed), run)
		} else {
			run(t)
		}
	}
}

func collect(opts []Option) options {
	var o options
	for _, f := range opts {
		f(&o)
	}
	return o
}

func start(t testing.TB, test string, virtual bool, d drawn, o options) *Kit {
	t.Helper()
	if err := o.checkFakes(); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	*standins.Fakes(&o.cfg) = o.fakes
	k := &Kit{t: t, seed: d.seed, virtual: virtual}
	d.announce(t, test, func() bool { return k.virtual || k.drew.Load() })
	k.rng = rand.New(rand.NewPCG(k.seed, 0))
	// The first Kit's cleanup is the last to run, when the nodes of all are closed.
	if mark, first := markGoroutines(t.Name()); first {
		t.Cleanup(func() {
			defer unmark(t.Name())
			if virtual {
				<-time.After(time.Minute) // what ends by itself, soon after a node's end, has ended then
			}
			for _, stack := range mark.left() {
				t.Errorf("testkit: a goroutine was left behind; end it before the task returns, or with its context:\n%s", stack)
			}
		})
	}
	if o.nodes > 0 {
		k.cluster = newCluster(k, o)
		k.node = k.cluster.Node(0)
		k.cluster.Ready()
	} else {
		k.alone(o)
	}
	k.ctx = k.node.Context(context.Background())
	return k
}

// alone starts the one node of a Kit without Nodes.
func (k *Kit) alone(o options) {
	t := k.t
	t.Helper()
	o.cfg.Seed = k.seed
	if o.cfg.MemoryLimit == 0 && k.virtual { // what the process has is no part of a test that repeats
		o.cfg.MemoryLimit = -1
	}
	var watch *strict
	if !o.loose {
		watch = newStrict()
		*standins.Inspector(&o.cfg) = watch
	}
	n, err := system.New(o.cfg)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
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
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	k.node = n
}

// T is the test that the Kit runs in. In Virtual it is not the one that was given to it: failures belong to this one.
func (k *Kit) T() testing.TB { return k.t }

// Context is the test's driver context: of the node under test, or with Nodes of the test's own.
func (k *Kit) Context() context.Context { return k.ctx }

// Node is that node.
func (k *Kit) Node() *system.Node { return k.node }

// Cluster is the nodes of a Kit with Nodes, and all that can happen to them. It fails the test of a Kit without.
func (k *Kit) Cluster() *Cluster {
	k.t.Helper()
	if k.cluster == nil {
		k.t.Fatalf("testkit: the Kit has one node: make it with testkit.Nodes(n)")
	}
	return k.cluster
}

// Seed is the seed of this run.
func (k *Kit) Seed() uint64 {
	k.drew.Store(true)
	return k.seed
}

// Rand is a source seeded by it, for the test's own draws. It is not safe for concurrent use.
func (k *Kit) Rand() *rand.Rand {
	k.drew.Store(true)
	return k.rng
}

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
	eventually.Holds(t, limit, what, cond)
}
