package faults_test

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// What the clusters of these tests run. It is in the process-wide table, for the processes that run this binary again.

type job struct {
	N    int
	Wait time.Duration
}

// square takes its time and answers with what can be checked.
var square = tasks.Define("faults.square", func(ctx context.Context, j job) (int, error) {
	select {
	case <-time.After(j.Wait):
		return j.N * j.N, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
})

// counter keeps its number in grains.State, written before the reply.
type counter struct {
	n    grains.State[int]
	life *testkit.Activation
}

func (c *counter) OnActivate(ctx context.Context) error {
	c.life = counterLives.Begin(ctx)
	return nil
}

func (c *counter) Add(ctx context.Context, d int) (int, error) {
	c.n.Value += d
	err := c.n.Write(ctx)
	c.life.Committed(c.n.ETag(), err)
	return c.n.Value, err
}

func (c *counter) Read(ctx context.Context) (int, error) { return c.n.Value, nil }

func (c *counter) Host(ctx context.Context) (host, error) { return hostOf(ctx), nil }

// readBeside reads a counter from the node that the task runs on.
var readBeside = tasks.Define("faults.readBeside", func(ctx context.Context, key string) (int, error) {
	return read.Call(ctx, counters.Get(key)).Get(ctx)
})

// vault is a counter whose turns are transactions.
type vault struct{ n grains.State[int] }

// step is what a vault adds, and how long its turn takes.
type step struct {
	N    int
	Wait time.Duration
}

func (v *vault) Add(ctx context.Context, s step) (int, error) {
	if s.Wait > 0 {
		pause(s.Wait)
	}
	v.n.Value += s.N
	return v.n.Value, nil
}

func (v *vault) Read(ctx context.Context) (int, error) { return v.n.Value, nil }

func (v *vault) Host(ctx context.Context) (host, error) { return hostOf(ctx), nil }

// plain keeps its number in memory alone.
type plain struct {
	n    int
	life *testkit.Activation
}

func (p *plain) OnActivate(ctx context.Context) error {
	p.life = plainLives.Begin(ctx)
	return nil
}

func (p *plain) Add(ctx context.Context, d int) (int, error) {
	defer p.life.Turn()
	p.n += d
	return p.n, nil
}

func (p *plain) Host(ctx context.Context) (host, error) {
	defer p.life.Turn()
	return hostOf(ctx), nil
}

// Reach calls another grain from this one's node.
func (p *plain) Reach(ctx context.Context, key string) (host, error) {
	return plainHost.Call(ctx, plains.Get(key)).Get(ctx)
}

// host says where a turn ran.
type host struct {
	Node string
	PID  int
}

func hostOf(ctx context.Context) host {
	h := host{PID: os.Getpid()}
	if t, _, err := core.TurnOf(ctx); err == nil {
		h.Node = string(t.Job().Node)
	}
	return h
}

// echo is a stateless worker.
type echo struct{}

func (*echo) Say(ctx context.Context, s string) (string, error) { return s, nil }

var (
	counters    = grains.Define[counter]("faults.counter")
	add         = grains.Method(counters, "add", (*counter).Add)
	read        = grains.Method0(counters, "read", (*counter).Read).ReadOnly()
	counterHost = grains.Method0(counters, "host", (*counter).Host).Idempotent()

	vaults    = grains.Define[vault]("faults.vault", grains.Durable())
	vaultAdd  = grains.Method(vaults, "add", (*vault).Add)
	vaultRead = grains.Method0(vaults, "read", (*vault).Read).ReadOnly()
	vaultHost = grains.Method0(vaults, "host", (*vault).Host).ReadOnly()

	plains    = grains.Define[plain]("faults.plain")
	plainAdd  = grains.Method(plains, "add", (*plain).Add)
	plainHost = grains.Method0(plains, "host", (*plain).Host).Idempotent()
	reach     = grains.Method(plains, "reach", (*plain).Reach)

	echoes = grains.Define[echo]("faults.echo", grains.StatelessWorker(0))
	say    = grains.Method(echoes, "say", (*echo).Say).Idempotent()

	counterLives = testkit.NewActivations("counters")
	plainLives   = testkit.NewActivations("plains")
)

// runs tells the keys of one run from those of another, whose store was another.
var runs atomic.Uint64
