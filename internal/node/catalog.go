package node

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

// catalog is Consul's list of services. Consul's UI and DNS show the nodes by it. No node depends on it: a node that cannot
// register itself logs that once, and works without.
type catalog interface {
	Register(ctx context.Context, s consul.Service) error
	Pass(ctx context.Context, id, note string) error
	Deregister(ctx context.Context, id string) error
	// OnAgent says why the node's session lies on the agent's node of the catalog; nil where it has one of its own.
	OnAgent() error
	// Sweep removes nodes of the catalog that the sessions of dead nodes left.
	Sweep(ctx context.Context) error
}

// sweeper is member.Config.Sweep.
func sweeper(c *Cluster) func(context.Context) error {
	if in, ok := c.KV.(catalog); ok {
		return in.Sweep
	}
	return nil
}

// sayOnAgent warns of a session that an agent of Consul ends when it stops.
func sayOnAgent(c *Cluster) {
	in, ok := c.KV.(catalog)
	if !ok || c.cfg.Record.Observer {
		return
	}
	if err := in.OnAgent(); err != nil {
		c.Log.Warn("the session lies on the node of Consul's agent: an agent that is no server and stops in good order ends it, and fences this node; allow node and session write as in docs/operating/consul.md, or set leave_on_terminate = false", zap.Error(err))
	}
}

// catalogLimit bounds each request to the catalog.
const catalogLimit = 2 * time.Second

// serviceName is the name of the service that the nodes of a cluster are in the catalog.
func serviceName(cluster string) string { return "raysys-" + cluster }

// service is this node's entry. A later incarnation of the node replaces it, so that a restarted node has one entry.
func service(c *Cluster) consul.Service {
	host, port, _ := net.SplitHostPort(c.Info.Address) // Join has checked it
	number, _ := strconv.Atoi(port)
	role := c.cfg.Role
	return consul.Service{
		ID: serviceName(c.cfg.Cluster) + "-" + string(c.Info.ID), Name: serviceName(c.cfg.Cluster), Address: host, Port: number,
		Tags: []string{role},
		Meta: map[string]string{
			"node": string(c.Info.ID), "role": role, "version": c.Info.Version, "incarnation": strconv.FormatUint(c.Self().Incarnation, 10),
		},
		TTL: 3 * c.cfg.TTL,
	}
}

// enlist keeps the node in the catalog until the cluster ends.
func enlist(c *Cluster, in catalog) {
	s, listed, said := service(c), false, false
	tick := time.NewTicker(c.cfg.TTL)
	defer tick.Stop()
	for {
		err := inCatalog(c.ctx, func(ctx context.Context) error {
			if listed {
				if err := in.Pass(ctx, s.ID, ""); !errors.Is(err, store.ErrNotFound) {
					return err
				}
			}
			return in.Register(ctx, s)
		})
		switch {
		case err == nil:
			listed, said = true, false
		case c.ctx.Err() == nil && !said:
			c.Log.Warn("cannot register the node in Consul's catalog; the node works without", zap.String("service", s.Name), zap.Error(err))
			said = true
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			if listed && c.killed.Load() == nil {
				// An entry that stays turns critical, and Consul removes it.
				_ = inCatalog(context.Background(), func(ctx context.Context) error { return in.Deregister(ctx, s.ID) })
			}
			return
		}
	}
}

func inCatalog(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, catalogLimit)
	defer cancel()
	return f(ctx)
}
