package process

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Sentinels, for errors.Is.
var (
	// ErrExited: the child has ended. ExitError says how, and what it said last.
	ErrExited = core.Sentinel("process.exited", "the child process has ended")
	// ErrStarting: the call has ended before the child was up. It goes on starting, for as long as Config.Start says: call again.
	ErrStarting = core.Sentinel("process.starting", "the child process is not up yet")
	// ErrSilent: the child gave no heartbeat for Config.Heartbeat, and was killed.
	ErrSilent = core.Sentinel("process.silent", "the child process gave no heartbeat")
	// ErrProtocol: the child wrote something to descriptor 4 that is no frame, and was killed.
	ErrProtocol = core.Sentinel("process.protocol", "the child process did not send a frame")
	// ErrValue: a value or a result does not fit the types of the method, cannot be written as JSON, or has text that is no UTF-8.
	ErrValue = core.Sentinel("process.value", "the value does not fit")
	// ErrTensor: type, shape and length of a tensor do not fit each other, or what was asked for.
	ErrTensor = core.Sentinel("process.tensor", "the tensor does not fit")
	// ErrReset: the environments have not been reset since their child was started, or since one of them failed. Call Reset.
	ErrReset = core.Sentinel("process.reset", "the environments must be reset")
	// ErrNaN: an environment gave an observation or a reward that is not a number.
	ErrNaN = core.Sentinel("process.nan", "not a number")
	// ErrShape: an environment gave an observation of another shape than before, or than the others.
	ErrShape = core.Sentinel("process.shape", "wrong shape")
)

var (
	_ = raysys.Register[*Error]("process.Error")
	_ = raysys.Register[*ExitError]("process.ExitError")
	_ = raysys.Register[*EnvError]("process.EnvError")
)

// Error is an exception of the child's code. The child lives, and keeps its state.
type Error struct {
	Process   string // the grain, as kind/key
	Method    string // "" where the object could not be made: then the child has ended, too
	Type      string // such as ValueError
	Message   string
	Traceback string // of several lines
}

func (e *Error) Error() string {
	what := e.Method
	if what == "" {
		what = "start"
	}
	return fmt.Sprintf("%s: %s: %s: %s", e.Process, what, e.Type, e.Message)
}

// ExitError says that the child is no more, and its state with it. It matches ErrExited. The next call starts another child.
type ExitError struct {
	Process string // the grain, as kind/key
	Status  string // such as "exit status 1", "signal: killed"
	Stderr  string // the last lines
}

func (e *ExitError) Error() string {
	s := fmt.Sprintf("%s: %v: %s", e.Process, ErrExited, e.Status)
	if e.Stderr != "" {
		s += "\n" + e.Stderr
	}
	return s
}

// Is makes ErrExited match.
func (e *ExitError) Is(target error) bool { return target == ErrExited }

// EnvError says which environment of a Vector has failed. ErrNaN, ErrShape or an *Error is beside it. All environments must be reset.
type EnvError struct {
	Process string // the grain, as kind/key
	Env     int    // its index; -1 where it is not known which
	Seed    int64  // that it had from the last Reset
	Step    int    // of the Vector since the last Reset, counted from 1; 0 in Reset
}

func (e *EnvError) Error() string {
	if e.Env < 0 {
		return fmt.Sprintf("%s: the environments (seed %d) in step %d", e.Process, e.Seed, e.Step)
	}
	return fmt.Sprintf("%s: environment %d (seed %d) in step %d", e.Process, e.Env, e.Seed, e.Step)
}

// envRaised is an exception of one environment, until its Vector says of which seed and step.
type envRaised struct {
	cause *Error
	env   int
	shape bool
}

func (e *envRaised) Error() string { return e.cause.Error() }

func tooLarge(n, limit int) error {
	return fmt.Errorf("%w: a frame of %d bytes, and Config.MaxFrame is %d", raysys.ErrTooLarge, n, limit)
}
