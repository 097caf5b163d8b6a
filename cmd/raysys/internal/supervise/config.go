package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
)

// Config of a Supervisor. Launch is needed, the rest has defaults.
type Config struct {
	// Name of the node, for reports and messages.
	Name raysys.NodeID
	// Launch starts the program once more.
	Launch func() (Process, error)
	// Reporter gets a report of every exit. Nil: none is made.
	Reporter Reporter
	// Final says of an exit, with an error, that the program must not be started again. Nil: none is.
	Final func(e Exit) error
	// Talk gets what the supervisor itself has to say, a line at a time. Nil: nothing.
	Talk io.Writer
	// Grace is how long a drain may take: 5 minutes unless set.
	Grace time.Duration
	// Settled is how long the program must be up for its start to count as good: 10 s unless set, several times what a
	// program needs to reach its cluster.
	Settled time.Duration
	// RestartMin is the pause before the first restart, which doubles with each further death that comes before
	// Settled, up to RestartMax: 100 ms to 30 s unless set. Up to half of it is taken off at random, so that hosts whose
	// programs died of one cause do not come back in one moment.
	RestartMin time.Duration
	RestartMax time.Duration
	// ReportLimit bounds one report: 5 s unless set. After it the program starts again and its old session runs out by
	// its TTL.
	ReportLimit time.Duration
	// Draw returns a random number in [0,1). Nil: math/rand's.
	Draw func() float64
}

func (cfg *Config) complete() error {
	if cfg.Launch == nil {
		return errors.New("new supervisor: Config.Launch is nil: give what starts the program")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		unset time.Duration
	}{
		{"Grace", &cfg.Grace, 5 * time.Minute},
		{"Settled", &cfg.Settled, 10 * time.Second},
		{"RestartMin", &cfg.RestartMin, 100 * time.Millisecond},
		{"RestartMax", &cfg.RestartMax, 30 * time.Second},
		{"ReportLimit", &cfg.ReportLimit, 5 * time.Second},
	} {
		if *d.value < 0 {
			return fmt.Errorf("new supervisor: Config.%s is %v: give 0 (the default) or more", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	cfg.RestartMax = max(cfg.RestartMax, cfg.RestartMin)
	if cfg.Talk == nil {
		cfg.Talk = io.Discard
	}
	if cfg.Draw == nil {
		cfg.Draw = rand.Float64
	}
	return nil
}

// Reporter learns that a process of the node is dead, which is proof: its session may be destroyed at once, without
// waiting for the TTL. The call ends when ctx does.
type Reporter interface {
	Exited(ctx context.Context, node raysys.NodeID, e Exit) error
}

// Process is the program from one start to its end.
type Process interface {
	// PID of the process.
	PID() int
	// Exited delivers the exit once, as soon as the process is gone.
	Exited() <-chan Exit
	// Terminate asks it to drain and to exit (SIGTERM).
	Terminate() error
	// Kill ends it and all it started.
	Kill() error
	// Close ends what the process left behind and returns the last lines it wrote. Call it after the exit.
	Close() []string
}

// Exit is how a process ended.
type Exit struct {
	PID    int
	Launch string // RAYSYS_LAUNCH of this process, which no other has
	Ran    time.Duration
	Code   int    // -1 when a signal ended it
	Signal string // "killed", "segmentation fault"
	Told   Told   // its last message to its supervisor
}

// String says it in words.
func (e Exit) String() string {
	ran := e.Ran.Round(time.Millisecond)
	if e.Signal != "" {
		return fmt.Sprintf("process %d ended by signal (%s) after %v", e.PID, e.Signal, ran)
	}
	return fmt.Sprintf("process %d ended with exit code %d after %v", e.PID, e.Code, ran)
}
