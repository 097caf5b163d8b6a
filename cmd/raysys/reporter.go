package main

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store/consul"
)

// deaths reports to the cluster that a process of this host is dead, which ends its session at once. It needs Consul
// alone: no node has to answer.
type deaths struct {
	kv *consul.Store
}

// newReporter does no I/O: a Consul that is away now may be back when a process dies.
func newReporter(at client.Where, _ raysys.NodeID) (supervise.Reporter, error) {
	kv, err := openStore(at)
	if err != nil {
		return nil, err
	}
	return &deaths{kv: kv}, nil
}

// Exited implements supervise.Reporter.
func (d *deaths) Exited(ctx context.Context, node raysys.NodeID, e supervise.Exit) error {
	_, err := member.DiedLaunch(ctx, d.kv, node, e.Launch)
	return err
}

// Close implements io.Closer.
func (d *deaths) Close() error { return d.kv.Close() }
