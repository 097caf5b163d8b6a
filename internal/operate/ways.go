package operate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
)

const (
	// dialedAtOnce bounds the connections that a node tries at the same time for Ways.
	dialedAtOnce = 16
	// wayPatience bounds the attempt to open one connection: a host that drops packets must not use up the time of the
	// others.
	wayPatience = 2 * time.Second
)

// Ways has every node try to connect to every other node that is no driver, and returns the outcomes. A node that does
// not answer is left out; Status lists it.
func (o *Operator) Ways(ctx context.Context) ([]inspect.Way, error) {
	if o.Node.Cluster() == nil {
		return nil, fmt.Errorf("ways between nodes: %w", errInNoCluster)
	}
	var ways []inspect.Way
	for _, a := range o.askAll(ctx, o.Members(), adminRequest{op: adminWays}) {
		if a.err == nil {
			ways = append(ways, a.answer.Ways...)
		}
	}
	if ctx.Err() != nil {
		return ways, fmt.Errorf("ways between nodes: %w", context.Cause(ctx))
	}
	return ways, nil
}

// ways tries the ways from this node. It leaves out drivers, which other nodes may be unable to dial: drivers dial
// themselves.
func (o *Operator) ways() ([]inspect.Way, error) {
	if !o.trying.CompareAndSwap(false, true) { // one question at a time bounds the connections
		return nil, errors.New("it is trying its ways for another request: ask again")
	}
	defer o.trying.Store(false)
	var to []member.Node
	c := o.Node.Cluster()
	for _, m := range c.Member.View().Nodes() {
		if m.Info.Works() && mesh.KeyOf(m) != o.Self() {
			to = append(to, m)
		}
	}
	ways := make([]inspect.Way, len(to))
	free := make(chan struct{}, dialedAtOnce)
	var wg sync.WaitGroup
	for i, m := range to {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			ways[i] = inspect.Way{From: o.Self().Node, To: m.ID}
			if err := c.canDial(m); err != nil {
				ways[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	return ways, nil
}

// canDial opens a connection to the node and closes it, without sending anything: the connection in use stays.
func (c *Cluster) canDial(m member.Node) error {
	ctx, cancel := context.WithTimeoutCause(c.Runner.Context(), wayPatience, fmt.Errorf("no answer within %v", wayPatience))
	defer cancel()
	conn, err := c.Network.Dial(ctx, m.Address)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, link.ErrRefused):
		return fmt.Errorf("%s refuses connections", m.Address)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", m.Address, context.Cause(ctx))
	}
	return err
}
