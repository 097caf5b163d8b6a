package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tools/internal/countload"
	"github.com/raysys/raysys/tools/internal/figures"
)

const workers = 3

// counterGrain is the Durable grain.
type counterGrain struct{ Sum grains.State[int64] }

func (c *counterGrain) add(_ context.Context, n int64) (int64, error) {
	c.Sum.Value += n
	return c.Sum.Value, nil
}

var (
	counterGrains = grains.Define[counterGrain]("counter", grains.Durable())
	addToGrain    = grains.Method(counterGrains, "add", (*counterGrain).add)
)

func consulMissing() error {
	_, err := consulserver.Find()
	return err
}

// startNodes starts a cluster, and calls from a driver.
func startNodes(ctx context.Context, _ string, keyed bool) (countload.Peer, error) {
	consul, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
	if err != nil {
		return countload.Peer{}, err
	}
	ends := []func() error{consul.Close}
	for i := range workers {
		_, end, err := figures.Launch(figures.Child("node", consul.Address(), fmt.Sprintf("node-%d", i+1)))
		if err != nil {
			return countload.Peer{}, err
		}
		ends = append(ends, func() error { end(); return nil })
	}
	return startDriver(ctx, clusterNode(consul.Address(), "driver", system.Driver), keyed, ends)
}

// startSolo starts a node without a cluster, whose data is on the disk.
func startSolo(ctx context.Context, dir string, keyed bool) (countload.Peer, error) {
	return startDriver(ctx, system.Config{Data: filepath.Join(dir, "data")}, keyed, nil)
}

// startDriver starts the node that calls. At the end ends are called, the last one first.
func startDriver(ctx context.Context, c system.Config, keyed bool, ends []func() error) (countload.Peer, error) {
	n, err := system.New(c)
	if err != nil {
		return countload.Peer{}, err
	}
	if err := n.Start(ctx); err != nil {
		return countload.Peer{}, err
	}
	call := func(ctx context.Context, key, id string) (int64, error) {
		method := addToGrain
		if keyed {
			method = method.With(raysys.Key(id))
		}
		r := method.Call(ctx, counterGrains.Get(key), 1)
		defer r.Release()
		return r.Get(ctx)
	}
	end := func() error {
		err := n.Close(ctx)
		for i := len(ends) - 1; i >= 0; i-- {
			err = errors.Join(err, ends[i]())
		}
		return err
	}
	return countload.Peer{Context: n.Context(ctx), Call: call, End: end}, nil
}

func clusterNode(consul, name string, role system.Role) system.Config {
	cluster := &system.ClusterConfig{Name: "benchdurable", Consul: consul, Role: role}
	return system.Config{Name: raysys.NodeID(name), Cluster: cluster}
}

// hostNode is the process of a worker.
func hostNode(ctx context.Context, consul, name string) error {
	n, err := system.New(clusterNode(consul, name, system.Worker))
	if err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	return errors.Join(figures.Wait("ready"), n.Close(ctx))
}
