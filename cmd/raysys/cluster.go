package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// onConsul is the cluster that commands talk to: what they ask of nodes goes through a node of their own, which joins
// for the moment.
func onConsul() cluster { return cluster{connect: connect, examine: examine, reporter: newReporter} }

// openStore opens the cluster's keys in Consul. It does no I/O.
func openStore(at client.Where) (*consul.Store, error) { return openStoreAs(at, "") }

// openStoreAs uses a token, where it is not empty, in place of that of the environment.
func openStoreAs(at client.Where, token string) (*consul.Store, error) {
	cfg, err := consul.FromEnv(func(name string) string {
		switch name {
		case "RAYSYS_CONSUL":
			return at.Consul
		case "RAYSYS_CLUSTER":
			return at.Cluster
		}
		return os.Getenv(name)
	})
	if err != nil {
		return nil, cli.Usage(err)
	}
	if token != "" {
		cfg.Token = token
	}
	return consul.Open(cfg)
}

// explain gives an error of the store the state that decides about the exit code.
func explain(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, system.ErrConfig) {
		return fmt.Errorf("%w: %w", client.ErrUnreachable, err)
	}
	return err
}

// observer is a node that joined to ask.
type observer struct {
	kv   *consul.Store
	node *system.Node
}

// leaveLimit bounds what a command spends on leaving: its session ends by itself.
const leaveLimit = 5 * time.Second

func connect(ctx context.Context, at client.Where) (client.Cluster, error) {
	o, err := observe(ctx, at)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// electionTime is how long a command waits for the servers of Consul to elect a leader: longer than an election takes.
const electionTime = 3 * time.Second

// led returns an error where the servers of Consul have no leader. A read would wait for one for as long as the command may take.
func led(ctx context.Context, kv *consul.Store) error {
	patient, cancel := context.WithTimeout(ctx, electionTime)
	defer cancel()
	tick := time.NewTicker(electionTime / 10)
	defer tick.Stop()
	for {
		leader, err := kv.Leader(ctx)
		if err != nil {
			return explain(err)
		}
		if leader != "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-patient.Done():
			return fmt.Errorf("%w: consul at %s answers, but its servers have no leader: bring a majority of them up", client.ErrUnreachable, kv.Address())
		}
	}
}

// observe joins. A cluster that is not there is not made.
func observe(ctx context.Context, at client.Where) (_ *observer, err error) {
	kv, err := openStore(at)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, kv.Close())
		}
	}()
	if err := led(ctx, kv); err != nil {
		return nil, err
	}
	switch _, err := kv.Get(ctx, shardlog.LayoutKey); {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("%w: consul at %s knows no cluster %s, a first node makes it", client.ErrNotFound, kv.Address(), at.Cluster)
	case err != nil:
		return nil, explain(err)
	}
	cfg := system.Config{
		Table: raysys.NewTable(), // this command offers no functions
		Cluster: &system.ClusterConfig{
			Name: at.Cluster, Consul: at.Consul, Store: kv, Role: system.Driver, Observer: true, Insecure: at.Insecure,
			TLS: system.TLSFiles{Cert: at.Cert, Key: at.Key, CA: at.CA},
		},
	}
	if at.Cert == "" { // else the name is aside of the certificate's
		cfg.Name = raysys.NodeID("raysys-operator-" + strings.ToLower(rand.Text()[:8]))
	}
	node, err := system.New(cfg)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if err := node.Start(ctx); err != nil {
		return nil, explain(err)
	}
	return &observer{kv, node}, nil
}

// Close leaves.
func (o *observer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	return errors.Join(o.node.Close(ctx), o.kv.Close())
}

// Drain implements client.Cluster.
func (o *observer) Drain(ctx context.Context, node raysys.NodeID, wait bool, begun func()) (client.Drain, error) {
	incarnation, err := o.node.DrainNode(ctx, node)
	if err != nil {
		return client.Drain{Node: node, Incarnation: incarnation}, notFound(err)
	}
	if begun(); !wait {
		return client.Drain{Node: node, Incarnation: incarnation}, nil
	}
	return o.Left(ctx, node, incarnation)
}

// Left implements client.Cluster.
func (o *observer) Left(ctx context.Context, node raysys.NodeID, incarnation uint64) (client.Drain, error) {
	d := client.Drain{Node: node, Incarnation: incarnation}
	came, err := o.node.AwaitDrained(ctx, node, incarnation)
	if err != nil {
		if ctx.Err() != nil {
			err = o.keeps(node, err)
		}
		return d, err
	}
	d.Left = true
	if came != nil {
		d.Told, d.Took, d.Kept, d.Lost, d.Why, d.Error = true, came.Took, came.Left, came.Lost, came.Why, came.Error
	}
	return d, nil
}

// CancelDrain implements client.Cluster.
func (o *observer) CancelDrain(ctx context.Context, node raysys.NodeID) error {
	return notFound(o.node.CancelDrain(ctx, node))
}

func notFound(err error) error {
	if errors.Is(err, system.ErrNoSuchNode) {
		return fmt.Errorf("%w: no node of this name is in the cluster", client.ErrNotFound)
	}
	return err
}

// keeps adds to the end of a wait what keeps the node that drains.
func (o *observer) keeps(node raysys.NodeID, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit) // the command's own time is over
	defer cancel()
	list, bad := o.node.Holding(ctx, node)
	switch {
	case bad != nil:
		return fmt.Errorf("%w; what keeps it is not known: %w", err, bad)
	case len(list) == 0:
		return err
	}
	return fmt.Errorf("%w; it goes on, and is kept by %s; raysys drain --cancel %s takes it back", err, strings.Join(list, ", "), node)
}

// Status implements client.Cluster.
func (o *observer) Status(ctx context.Context) (client.Status, error) { return o.node.Status(ctx) }

// Restart implements client.Cluster.
func (o *observer) Restart(ctx context.Context, node raysys.NodeID, keepJobs bool) (incarnation uint64, err error) {
	incarnation, err = o.node.RestartNode(ctx, node, keepJobs)
	return incarnation, notFound(err)
}

// Start implements client.Cluster.
func (o *observer) Start(ctx context.Context, q inspect.StartQuery) (inspect.Started, error) {
	return o.node.StartTask(ctx, q)
}
