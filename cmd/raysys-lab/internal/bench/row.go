package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys/system"
)

// Tier says where the two ends of an operation are.
type Tier string

// The tiers. CrossProcess is between node processes on loopback, in a cluster of their own.
const (
	InProcess    Tier = "in-process"
	CrossProcess Tier = "cross-process"
)

// Unit is the unit of a row's value. Latency, Tail and Bytes are better when small; every other unit is a rate.
type Unit string

// The units that are no rates.
const (
	Latency Unit = "us"
	Bytes   Unit = "B"
	// Tail is a p99 in microseconds.
	Tail Unit = "us p99"
)

// Row is one line of the benchmark.
type Row struct {
	Name      string
	Tier      Tier
	Unit      Unit
	Operation string // one operation in words
	Named     bool   // measured only when it is asked for by name: it takes minutes
	measure   func(ctx context.Context, p Plan) (measured, error)
}

// Plan says how long to measure. The zero value takes the defaults.
type Plan struct {
	// Rounds in which operation and raw limit are measured in turn; the medians count. 5 unless set. Rows whose one
	// operation takes a good part of a second do with fewer.
	Rounds int
	// Slice is how long each of the two runs in a round: 150 ms unless set, so that a row takes about 1.5 s.
	Slice time.Duration
	// Node describes the nodes that are measured, but for the table of functions, which is the benchmark's own.
	Node system.Config
	// Size of the objects that the rows of large objects move, in bytes. 0: each row has a size of its own.
	Size int64
	// Tasks is how many the row of very many tasks runs. 0: 50,000,000.
	Tasks int
	// Consul is host:port of the server through which the nodes of the cross-process rows find each other.
	Consul string
	// Self is the binary that child processes run, with Child behind its hidden command. Empty: this one.
	Self string
}

func (p Plan) complete() Plan {
	if p.Rounds == 0 {
		p.Rounds = 5
	}
	if p.Slice == 0 {
		p.Slice = 150 * time.Millisecond
	}
	return p
}

// Run measures the row. The error says which row failed and why; ctx ends it between rounds.
func (r Row) Run(ctx context.Context, p Plan) (Result, error) {
	m, err := r.measure(ctx, p.complete())
	if err != nil {
		return Result{}, fmt.Errorf("measure %s: %w", r.Name, err)
	}
	return r.result(m), nil
}

// withNode runs f on a node of its own, with a driver's context, and closes the node.
func withNode(ctx context.Context, p Plan, f func(ctx context.Context, n *system.Node) error) (err error) {
	cfg := p.Node
	if cfg.Table == nil {
		cfg.Table = functions
	}
	n, err := system.New(cfg)
	if err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	defer func() {
		grace, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if e := n.Close(grace); err == nil {
			err = e
		}
	}()
	return f(n.Context(ctx), n)
}

// onNode compares two sides on a node of its own.
func onNode(ctx context.Context, p Plan, compare func(ctx context.Context, p Plan, value, limit side) (measured, error),
	prepare func(driver context.Context) (value, limit side),
) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		value, limit := prepare(driver)
		m, err = compare(ctx, p, value, limit)
		return err
	})
	return m, err
}

// closeGrace bounds the wait for a node to close: nothing runs any more when a row closes its node, so it is for faults.
const closeGrace = 10 * time.Second
