package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/raysys/raysys/internal/backoff"
)

// How a Run may end beside well.
var (
	// ErrGrace: the drain took longer than Config.Grace.
	ErrGrace = errors.New("did not drain in time and was killed")
	// ErrKilled: the caller did not want to wait for the drain.
	ErrKilled = errors.New("killed before it had drained")
	// ErrCrashing: the program never came up.
	ErrCrashing = errors.New("never came up")
	// ErrConfig: the program said that its settings cannot be meant.
	ErrConfig = errors.New("bad configuration")
)

// tooOften is how many deaths in a row, each before Settled, are reported with the last lines.
const tooOften = 5

// asked is how an Exit names the signal of Terminate.
var asked = syscall.SIGTERM.String()

// Supervisor keeps one program running. It serves one Run.
type Supervisor struct {
	cfg     Config
	settled bool             // the program was up for Settled once
	quick   int              // deaths in a row before Settled
	pause   backoff.Doubling // before the next start
}

// New checks cfg and starts nothing.
func New(cfg Config) (*Supervisor, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	pause := backoff.Doubling{First: cfg.RestartMin, Longest: cfg.RestartMax, Draw: cfg.Draw}
	return &Supervisor{cfg: cfg, pause: pause}, nil
}

// Run keeps the program running until it is asked to drain for good, through the cluster or by the end of ctx, and
// has ended.
// A close of kill ends it at once. When Run returns, the program is gone.
func (s *Supervisor) Run(ctx context.Context, kill <-chan struct{}) error {
	for ctx.Err() == nil {
		l := s.live(ctx, kill)
		if l.over {
			return l.err
		}
		if l.again {
			s.settled = true // it was a node: who asked it to restart found it
			s.say("starting it again, as it was asked")
			continue
		}
		if l.settled {
			s.quick, s.settled = 0, true
		} else {
			s.quick++
		}
		if s.quick <= 1 {
			s.pause.Reset()
		}
		if s.quick > 0 && s.quick%tooOften == 0 {
			report := fmt.Errorf("%w: %d starts in a row ended within %v, the last lines are:%s", ErrCrashing, s.quick, s.cfg.Settled, indent(l.last))
			if !s.settled {
				return report
			}
			s.say("the program was up before, but now %v", report)
		}
		pause := s.pause.Next()
		s.say("next start in %v", pause.Round(time.Millisecond))
		if !wait(ctx, kill, pause) {
			break
		}
	}
	return nil // nothing runs that could be drained or killed
}

// life is what came of one start.
type life struct {
	settled bool     // it was up long enough
	over    bool     // there is no next one: err is the outcome
	again   bool     // the next one comes at once
	last    []string // lines
	err     error
}

func (s *Supervisor) live(ctx context.Context, kill <-chan struct{}) life {
	p, err := s.cfg.Launch()
	if err != nil {
		s.say("%v", err)
		return life{last: []string{err.Error()}}
	}
	s.say("started process %d", p.PID())
	exit, draining, err := s.watch(ctx, p, kill)
	s.report(exit)
	l := life{settled: exit.Ran >= s.cfg.Settled, last: p.Close()}
	s.say("%v", exit)
	switch {
	case err != nil:
		l.over, l.err = true, fmt.Errorf("%v: %w", exit, err)
	case s.final(exit) != nil:
		l.over, l.err = true, fmt.Errorf("%v: %w", exit, s.final(exit))
	case exit.Told == Misconfigured:
		l.over, l.err = true, fmt.Errorf("%w: %v, its last lines are:%s", ErrConfig, exit, indent(l.last))
	case draining && (exit.Code == 0 || exit.Signal == asked):
		// A program without a handler for the signal, or not yet with one, ended as asked.
		l.over = true
	case draining:
		l.over, l.err = true, fmt.Errorf("drain: %v, its last lines are:%s", exit, indent(l.last))
	case exit.Told == Draining:
		// The node is gone, as it was asked in the cluster; an error would make the service manager start it again.
		l.over = true
		if exit.Code != 0 {
			s.say("it was asked to drain, and did not end well: its last lines are:%s", indent(l.last))
		}
	case exit.Told == Restarting:
		if l.again = true; exit.Code != 0 {
			s.say("it did not end well: its last lines are:%s", indent(l.last))
		}
	case exit.Code == 0:
		s.say("no drain was asked for: this counts as a failure")
	}
	return l
}

// watch waits for the process to end, and helps it when it should.
func (s *Supervisor) watch(ctx context.Context, p Process, kill <-chan struct{}) (exit Exit, draining bool, err error) {
	stop := ctx.Done()
	var grace <-chan time.Time
	for {
		select {
		case exit = <-p.Exited():
			return exit, draining, err
		case <-stop:
			stop, draining = nil, true
			s.say("draining for up to %v; a second signal ends it at once", s.cfg.Grace)
			if err := p.Terminate(); err != nil {
				s.say("ask it to drain: %v", err) // it may just have ended, or the grace runs out
			}
			t := time.NewTimer(s.cfg.Grace)
			defer t.Stop()
			grace = t.C
		case <-grace:
			grace, err = nil, fmt.Errorf("%w (%v): give a longer --grace, or see what its tasks wait for", ErrGrace, s.cfg.Grace)
			s.kill(p)
		case <-kill:
			kill, draining, err = nil, true, ErrKilled
			s.kill(p)
		}
	}
}

func (s *Supervisor) final(e Exit) error {
	if s.cfg.Final == nil {
		return nil
	}
	return s.cfg.Final(e)
}

func (s *Supervisor) kill(p Process) {
	if err := p.Kill(); err != nil {
		s.say("kill: %v", err)
	}
}

// report tells the cluster. It comes before anything else that can wait, and is over before the next start.
func (s *Supervisor) report(e Exit) {
	if s.cfg.Reporter == nil {
		return
	}
	// A drain may have ended the caller's ctx, and the cluster wants to know all the same.
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.cfg.ReportLimit, errors.New("the report took too long"))
	defer cancel()
	if err := s.cfg.Reporter.Exited(ctx, s.cfg.Name, e); err != nil {
		s.say("report the exit: %v: the cluster finds out when the lease runs out", err)
	}
}

func wait(ctx context.Context, kill <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-kill:
	}
	return false
}

func (s *Supervisor) say(format string, args ...any) {
	io.WriteString(s.cfg.Talk, strings.TrimSpace(fmt.Sprintf(format, args...))+"\n")
}

func indent(lines []string) string {
	if len(lines) == 0 {
		return " (none)"
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}
