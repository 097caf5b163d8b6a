package rl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// Where the checkpoints of a run are:
//
//	Plan.Dir   a file, which the driver writes
//	Plan.Name  the learner's grain; without a runtime the memory of the program
//	neither    the learner's grain, until the run ends

// file is that of the checkpoint; "" without a Dir.
func (p *Plan) file() string {
	if p.Dir == "" {
		return ""
	}
	return filepath.Join(p.Dir, "checkpoint")
}

// named is how an error names the run.
func (p *Plan) named() string {
	if p.Dir != "" {
		return p.Dir
	}
	return p.Name
}

// kept reports whether the run outlives a call of Train.
func (p *Plan) kept() bool { return p.Dir != "" || p.Name != "" }

// inMemory are checkpoints of a program without a runtime, by the name of the run.
type inMemory struct {
	mu sync.Mutex // guards m
	m  map[string]checkpoint
}

func (k *inMemory) get(run string) checkpoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m[run]
}

// set keeps c; one without a Model is none.
func (k *inMemory) set(run string, c checkpoint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.Model == "" {
		delete(k.m, run)
		return
	}
	if k.m == nil {
		k.m = map[string]checkpoint{}
	}
	k.m[run] = c
}

// load returns the checkpoint of a run in one goroutine; one without a Model where there is none.
func (e *Experiment) load(ctx context.Context, p *Plan) (c checkpoint, err error) {
	switch {
	case p.Dir != "":
		return loadCheckpoint(p.file())
	case p.Name == "":
		return c, nil
	case system.NodeOf(ctx) == nil:
		return e.memory.get(p.Name), nil
	}
	return again(ctx, func(ctx context.Context) raysys.Ref[checkpoint] { return e.kept.Call(ctx, e.learners.Get(p.Name)) })
}

// store keeps a checkpoint of a run in one goroutine.
func (e *Experiment) store(ctx context.Context, p *Plan, c checkpoint) error {
	switch {
	case p.Dir != "":
		return c.save(p.file())
	case system.NodeOf(ctx) == nil:
		e.memory.set(p.Name, c)
		return nil
	}
	_, err := again(ctx, func(ctx context.Context) grains.Done { return e.keep.Call(ctx, e.learners.Get(p.Name), c) })
	return err
}

// drop ends what is kept of a run that is over.
func (e *Experiment) drop(ctx context.Context, p *Plan) (err error) {
	if p.Dir != "" {
		err = removeFile(p.file())
	}
	if p.Name != "" {
		err = errors.Join(err, e.forget(ctx, p.Name))
	}
	return err
}

func removeFile(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (c *checkpoint) save(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return fmt.Errorf("Plan.Dir: %w", err)
	}
	h := fileHead{Kind: checkpointFile, Model: c.Model, Seed: c.Seed, Steps: c.Steps, EnvSteps: c.EnvSteps, Episodes: c.Episodes, Seconds: c.Seconds, Random: c.Random}
	if err := writeFile(file, h, c.Learner); err != nil {
		return fmt.Errorf("Plan.Dir: %w", err)
	}
	return nil
}

// loadCheckpoint returns one without a Model where there is no file.
func loadCheckpoint(file string) (checkpoint, error) {
	h, body, err := readFile(file, checkpointFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkpoint{}, nil
	case errors.Is(err, ErrFile):
		return checkpoint{}, fmt.Errorf("Plan.Dir: %w: remove it to begin anew", err)
	case err != nil: // the file may be whole
		return checkpoint{}, fmt.Errorf("Plan.Dir: %w", err)
	}
	return checkpoint{Model: h.Model, Seed: h.Seed, Learner: body, Steps: h.Steps, EnvSteps: h.EnvSteps, Episodes: h.Episodes, Seconds: h.Seconds, Random: h.Random}, nil
}

// logOf is where warnings of a run go.
func logOf(ctx context.Context) *slog.Logger {
	if n := system.NodeOf(ctx); n != nil {
		return n.Log()
	}
	return slog.Default()
}

// warnForgetful says once of a name that nothing keeps it beyond the program.
func (e *Experiment) warnForgetful(ctx context.Context, p *Plan) {
	if n := system.NodeOf(ctx); p.Name == "" || p.Dir != "" || n != nil && n.Persistent() {
		return
	}
	name := p.Name
	if e.here { // it is one of many
		name = ""
	}
	if _, said := e.warned.LoadOrStore(name, true); !said {
		logOf(ctx).Warn("a run of rl has a name, and is kept in the memory of this program alone: give Plan.Dir, RAYSYS_DATA or a cluster", "experiment", e.name, "run", p.Name)
	}
}
