package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"runtime"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/raysys/raysys/grains"
)

// Config is how a child is started.
type Config struct {
	// Script is the source of a Python file, usually embedded by go:embed: the module script, in processes of multiprocessing, too.
	Script string
	// New is the class or the function that makes the object whose methods are called: of Script, or as "module:name" of a module in
	// Dir or among those of Python. "": the functions of Script are called. It gets Args, and a seed where it has a parameter of that name.
	New  string
	Args map[string]any
	// Python is the interpreter: what RAYSYS_PYTHON says on the node, else python3 in PATH, unless set.
	Python string
	// Command is a program in another language, with its arguments, in the place of Python. It speaks the protocol of frame.go, gives
	// signs of life while it works, and sends no result beyond the max_frame of its first message: that ends it.
	Command []string

	Dir string // the working directory, which must exist: that of the node unless set
	// Env is as of exec.Cmd, beside raysys.DeviceEnv and the environment of the node. Of that the child does not get CONSUL_* and RAYSYS_*,
	// which have tokens and passwords: a script that needs one finds it here.
	Env []string

	// Seed makes, with the grain's name, the seed of the child, the same at each start: of Python's random, of numpy's and torch's where
	// Script imports them, and of its hashes. The children of a pool (grains.StatelessWorker) have the same.
	Seed uint64
	// Heartbeat is for how long a child that works may be silent before it is killed: 30 s unless set, and negative for ever. The worker
	// sends a sign of life four times in that, from a thread of its own.
	Heartbeat time.Duration
	// Start is for how long a child may start, from the start of its process until its object is made: 5 minutes unless set. It goes on when
	// the call ends that began it (ErrStarting), and a later call finds it. As many children of a node start at once as it has CPUs.
	Start time.Duration
	// MaxFrame bounds the bytes of one argument or result: 256 MiB unless set. What is larger is raysys.ErrTooLarge, and the child lives on.
	MaxFrame int

	// Envs makes N environments, for a Vector: New makes one of them, with gymnasium's methods reset and step, or a VectorEnv of gymnasium.
	Envs int
	// Gym is an environment that gymnasium knows, such as "CartPole-v1", in the place of New: N of it are made by gymnasium.make, which gets
	// Args, and stepped one after the other; with Args["vectorization_mode"] "async" by gymnasium.make_vec. An id such as
	// "ale_py:ALE/Pong-v5" imports the package that registers it first.
	Gym string
	// Own takes the vector that the environment of Gym brings along, such as those of CartPole and Atari. It is faster, and its episodes are others:
	// their seeds are not seed+i, they change with Envs, and settings may differ, such as rewards of Atari that are clipped to 1.
	Own bool
	// Autoreset says when a VectorEnv begins the next episode of an environment, where it does not say so itself, or wrongly: "next_step",
	// "same_step" or "disabled", as gymnasium's AutoresetMode. Steps have one form for all of them. With same_step and a vector that resets no
	// single environment (those of gymnasium do from 1.1 on) an episode begins with the observation after its first step.
	Autoreset string
	// Flatten makes one array of observations that are a Dict or a Tuple, as gymnasium's FlattenObservation does.
	Flatten bool
}

// check says what of c cannot be meant.
func (c *Config) check() error {
	args, bad := json.Marshal(c.Args)
	switch {
	case bad != nil:
		return fmt.Errorf("bad Args: %w", bad)
	case changed(args, true) != "":
		return fmt.Errorf("bad Args: text that is no UTF-8, near %s", changed(args, true))
	case !utf8.ValidString(c.Script):
		return errors.New("bad Script: it is no UTF-8")
	case len(c.Command) > 0 && c.Script+c.New+c.Gym+c.Python != "":
		return errors.New("with Command leave Script, New, Gym and Python empty: it is in the place of Python")
	case len(c.Command) == 0 && c.Script+c.New+c.Gym == "":
		return errors.New("give Script, New, Gym or Command")
	case c.Gym != "" && (c.Envs == 0 || c.New != ""):
		return errors.New("with Gym give Envs, and no New: it is for a Vector")
	case c.Own && c.Gym == "":
		return errors.New("with Own give Gym: it is of that environment")
	case (c.Flatten || c.Autoreset != "") && c.Envs == 0:
		return errors.New("with Flatten or Autoreset give Envs: they are for a Vector")
	case !slices.Contains([]string{"", "next_step", "same_step", "disabled"}, c.Autoreset):
		return fmt.Errorf("bad Autoreset %q: give next_step, same_step or disabled", c.Autoreset)
	case c.Envs < 0 || c.MaxFrame < 0 || c.MaxFrame > math.MaxInt32 || c.Start < 0:
		return fmt.Errorf("bad Envs %d, MaxFrame %d, or Start %v", c.Envs, c.MaxFrame, c.Start)
	}
	return nil
}

func (c *Config) heartbeat() time.Duration { return cmp.Or(c.Heartbeat, 30*time.Second) }

func (c *Config) start() time.Duration { return cmp.Or(c.Start, 5*time.Minute) }

func (c *Config) maxFrame() int { return cmp.Or(c.MaxFrame, 256<<20) }

// seed is that of the grain of a name. numpy takes no more than 32 bits.
func (c *Config) seed(name string) uint32 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", c.Seed, name)
	s := h.Sum64()
	return uint32(s ^ s>>32)
}

// beginning is the first message to a child.
type beginning struct {
	Script string         `json:"script"`
	New    string         `json:"new"`
	Args   map[string]any `json:"args"`
	Seed   uint32         `json:"seed"`
	Beat   float64        `json:"beat"` // seconds between signs of life; 0 for none
	Envs   int            `json:"envs"`
	Gym    string         `json:"gym"`
	Limit  int            `json:"max_frame"` // of a result: what is larger is a failure, with its length

	Shared    bool   `json:"shared"`            // descriptor 5 is shared memory
	Vectors   string `json:"vectors,omitempty"` // the source of vectors.py, where Envs is set
	Own       bool   `json:"own"`
	Autoreset string `json:"autoreset"`
	Flatten   bool   `json:"flatten"`
}

// Child is a child process with an object whose methods are called. The zero Child has none. Embed it in the struct of a grain, whose
// OnDeactivate it brings along, or use Define. Only turns of the grain use it.
type Child struct {
	cfg     *Config
	run     *running        // nil where the next call launches one
	dropped runtime.Cleanup // of run
}

// Start starts the child and waits until it is up, in the place of one that c has. When ctx ends first it fails with ErrStarting: then the
// child goes on starting, and the next Start with the same Config, or the next call, finds it. The calls that follow start it again when it
// has ended.
func (c *Child) Start(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("start a child process: %w", err)
	}
	if c.run == nil || c.run.seen || !reflect.DeepEqual(*c.cfg, cfg) {
		c.stop()
		c.cfg = &cfg
	}
	return c.ready(ctx)
}

// OnDeactivate implements grains.Deactivator: it kills the child, its process group and its descendants. A grain that has an OnDeactivate of its own
// calls it there.
func (c *Child) OnDeactivate(context.Context) error {
	c.stop()
	return nil
}

// PID is the process id of a child that Start or a call has found up, else 0.
func (c *Child) PID() int {
	if c.run == nil || !c.run.seen {
		return 0
	}
	return c.run.cmd.Process.Pid
}

// nameOf is the grain of ctx.
func nameOf(ctx context.Context) string {
	if id, ok := grains.Self(ctx); ok {
		return id.String()
	}
	return "process"
}

// ready waits until the child is up, and launches one where there is none.
func (c *Child) ready(ctx context.Context) error {
	switch {
	case c.cfg == nil:
		return fmt.Errorf("%s: %w: Start it first", nameOf(ctx), ErrExited)
	case c.run != nil && c.run.seen:
		return nil
	case c.run == nil:
		run, err := launch(ctx, c.cfg, nameOf(ctx))
		if err != nil {
			return fmt.Errorf("%s: start a child process: %w", nameOf(ctx), err)
		}
		// A grain whose struct is dropped after a panic has no OnDeactivate.
		c.run, c.dropped = run, runtime.AddCleanup(c, func(r *running) { r.kill() }, run)
	}
	over, err := c.run.await(ctx)
	if over && err != nil {
		c.stop()
	}
	return err
}

// call calls a method of the child's object. Where that fails the child is no more, unless the error is of its own code.
func (c *Child) call(ctx context.Context, m *message) (message, error) {
	if err := c.ready(ctx); err != nil {
		return message{}, err
	}
	c.run.serves(ctx)
	reply, err := c.run.exchange(ctx, m)
	if c.run.broken {
		c.stop()
	}
	return reply, err
}

// stop kills the child, if there is one, and waits until it is gone.
func (c *Child) stop() {
	if c.run != nil {
		c.run.stop()
		c.dropped.Stop()
		c.run = nil
	}
}
