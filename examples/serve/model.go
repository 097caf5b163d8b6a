package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// batchSize and batchWait say when a batch leaves; queued is how many wait for a model at most, before callers are refused.
const (
	batchSize = 64
	batchWait = 2 * time.Millisecond
	queued    = 8
)

// A release is a version of a model. It stands for a net on an accelerator: a batch takes the same time whatever is in it, and needs no CPU
// meanwhile. What it answers is the action of a linear policy, which looks at a few of the numbers.
type release struct {
	Model, Version string
	Takes          time.Duration // a batch
	Inputs         int           // numbers of an observation, of four bytes each
	Weights        []float32     // looks rows of actions numbers
}

const (
	looks   = 16
	actions = 4
)

// draw makes a release whose policy is drawn from seed.
func draw(model, version string, takes time.Duration, inputs int, seed uint64) release {
	r := release{Model: model, Version: version, Takes: takes, Inputs: inputs, Weights: make([]float32, looks*actions)}
	rng := rand.New(rand.NewPCG(seed, uint64(inputs)))
	for i := range r.Weights {
		r.Weights[i] = float32(rng.NormFloat64())
	}
	return r
}

var (
	errShape   = errors.New("an observation of another size")
	errUnknown = errors.New("no such version")
	errBad     = errors.New("bad request")

	_ = raysys.RegisterError("serve.shape", errShape)
	_ = raysys.RegisterError("serve.unknown", errUnknown)
	_ = raysys.RegisterError("serve.bad", errBad)
)

// act is the most probable action for an observation: little-endian float32, as it came.
func (r *release) act(obs []byte) (int, error) {
	if len(obs) != 4*r.Inputs {
		return 0, fmt.Errorf("%w: %d bytes, and %s takes %d", errShape, len(obs), r.Model, 4*r.Inputs)
	}
	var scores [actions]float32
	for i := range looks {
		x := math.Float32frombits(binary.LittleEndian.Uint32(obs[i*(r.Inputs/looks)*4:]))
		for a := range actions {
			scores[a] += x * r.Weights[i*actions+a]
		}
	}
	best := 0
	for a, s := range scores {
		if s > scores[best] {
			best = a
		}
	}
	return best, nil
}

// run does a batch.
func (r *release) run(observations [][]byte, answer func(i, action int, err error)) {
	began := time.Now()
	for i, o := range observations {
		action, err := r.act(o)
		answer(i, action, err)
	}
	<-time.After(r.Takes - time.Since(began))
}

// decision is the answer to one observation.
type decision struct {
	Action  int           `json:"action"`
	Version string        `json:"version"`
	Node    raysys.NodeID `json:"node"`
}

// Server is a grain for each version of a model, on each node: its key is model@version. An accelerator does one batch at a time.
type Server struct{ release release }

var (
	servers = grains.Define[Server]("serve-model", grains.StatelessWorker(1), grains.Mailbox(queued))
	infer   = grains.Batch(grains.Method(servers, "infer", (*Server).Infer).Idempotent(), batchSize, batchWait)
)

// OnActivate loads the version.
func (s *Server) OnActivate(ctx context.Context) (err error) {
	self, _ := servers.Self(ctx)
	model, version, _ := strings.Cut(self.ID().Key, "@")
	s.release, err = load.Call(ctx, catalogs.Get(model), version).Get(ctx)
	return err
}

// Infer answers many observations at once.
func (s *Server) Infer(ctx context.Context, observations [][]byte) ([]grains.Answer[decision], error) {
	answers, node := make([]grains.Answer[decision], len(observations)), system.NodeOf(ctx).Name()
	s.release.run(observations, func(i, action int, err error) {
		answers[i].Value = decision{action, s.release.Version, node}
		answers[i].Err.Err = err
	})
	return answers, nil
}

// traffic says which share of the requests each version gets, by weights.
type traffic map[string]int

// pick draws a version; u is from [0, 1).
func (t traffic) pick(versions []string, u float64) string {
	sum := 0
	for _, v := range versions {
		sum += t[v]
	}
	at := int(u * float64(sum))
	for _, v := range versions {
		if at -= t[v]; at < 0 {
			return v
		}
	}
	return ""
}

// Catalog is a grain for each model: its versions, which stay, and who of them serves. They outlive it, its node and the program.
type Catalog struct {
	Releases grains.State[map[string]release]
	Traffic  grains.State[traffic]
}

var (
	catalogs = grains.Define[Catalog]("serve-catalog")
	publish  = grains.Action(catalogs, "publish", (*Catalog).Publish).Idempotent()
	load     = grains.Method(catalogs, "load", (*Catalog).Load).ReadOnly().Idempotent()
	shift    = grains.Action(catalogs, "shift", (*Catalog).Shift).Idempotent()
	shares   = grains.Method0(catalogs, "shares", (*Catalog).Shares).ReadOnly().Idempotent()
)

// Publish adds a version, which gets no traffic yet.
func (c *Catalog) Publish(ctx context.Context, r release) error {
	if strings.Contains(r.Model+r.Version, "@") || r.Model == "" || r.Version == "" {
		return fmt.Errorf("%w: model %q, version %q: names are not empty, and without @", errBad, r.Model, r.Version)
	}
	if old, ok := c.Releases.Value[r.Version]; ok && !reflect.DeepEqual(old, r) {
		return fmt.Errorf("%w: %s has a version %q, which is another: give this one a name of its own", errBad, r.Model, r.Version)
	}
	if c.Releases.Value == nil {
		c.Releases.Value = map[string]release{}
	}
	c.Releases.Value[r.Version] = r
	return c.Releases.Write(ctx)
}

// Load returns a version.
func (c *Catalog) Load(_ context.Context, version string) (release, error) {
	r, ok := c.Releases.Value[version]
	if !ok {
		return r, fmt.Errorf("%w: %q", errUnknown, version)
	}
	return r, nil
}

// Shift moves the traffic.
func (c *Catalog) Shift(ctx context.Context, t traffic) error {
	sum := 0
	for v, w := range t {
		if _, ok := c.Releases.Value[v]; !ok {
			return fmt.Errorf("%w: %q", errUnknown, v)
		}
		if w < 0 || w > 1e6 {
			return fmt.Errorf("%w: version %q has the weight %d: give 0 to 1,000,000", errBad, v, w)
		}
		sum += w
	}
	if sum == 0 {
		return fmt.Errorf("%w: no version has a weight above 0", errBad)
	}
	c.Traffic.Value = t
	return c.Traffic.Write(ctx)
}

// Shares returns the traffic.
func (c *Catalog) Shares(context.Context) (traffic, error) { return c.Traffic.Value, nil }

// deploy publishes a version, has it load where it will run, and only then gives it traffic: no request waits for that, and none is dropped.
func deploy(ctx context.Context, r release, t traffic) error {
	catalog := catalogs.Get(r.Model)
	if _, err := publish.Call(ctx, catalog, r).Get(ctx); err != nil {
		return err
	}
	if _, err := warm(ctx, r); err != nil {
		return err
	}
	_, err := shift.Call(ctx, catalog, t).Get(ctx)
	return err
}

// warm sends a few batches, which go round the nodes, and returns the nodes that have answered.
func warm(ctx context.Context, r release) (map[raysys.NodeID]bool, error) {
	nodes, blank := map[raysys.NodeID]bool{}, make([]byte, 4*r.Inputs)
	for range 4 { // few enough that none is refused
		refs := make([]raysys.Ref[decision], 2*batchSize)
		for i := range refs {
			refs[i] = infer.Call(ctx, servers.Get(r.Model+"@"+r.Version), blank)
		}
		all, err := raysys.GetAll(ctx, refs).Values()
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			nodes[d.Node] = true
		}
	}
	return nodes, nil
}
