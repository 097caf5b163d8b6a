package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is a child and both ends of the pipe to it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // closed by end
	out   *bufio.Reader
	talk  bytes.Buffer // its standard error, for the error when it fails
	start time.Time
}

// launch starts this binary again to do what args say.
func launch(ctx context.Context, p Plan, args ...string) (*process, error) {
	self := p.Self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find own binary: %w", err)
		}
	}
	c := &process{cmd: exec.CommandContext(ctx, self, append([]string{ChildCommand}, args...)...)}
	c.cmd.Stderr = &c.talk
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	c.start = time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	return c, nil
}

// ready waits for the child's readyLine and returns the time since it was started.
func (c *process) ready() (time.Duration, error) {
	line, err := c.out.ReadString('\n')
	took := time.Since(c.start)
	if err == nil && line != readyLine {
		err = fmt.Errorf("it wrote %q", line)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("wait for child: %w", err), c.end())
	}
	return took, nil
}

// end lets the child go and waits for it.
func (c *process) end() error {
	c.in.Close()
	io.Copy(io.Discard, c.out)
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("child %s: %w: %s", strings.Join(c.cmd.Args[1:], " "), err, strings.TrimSpace(c.talk.String()))
	}
	return nil
}

// kill ends a child whose own end would take longer than what it was started for.
func (c *process) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill child: %w", err)
	}
	c.cmd.Wait() // says that it was killed
	return nil
}

// nodeStart measures from just before the process is started to the moment the parent has read that it is ready.
func nodeStart(ctx context.Context, p Plan) (measured, error) {
	// One launch is a few milliseconds: several make a round, so that p99 means something.
	p.Slice = min(p.Slice, 100*time.Millisecond)
	launched := func(what string, h *hist) error {
		c, err := launch(ctx, p, what)
		if err != nil {
			return err
		}
		took, err := c.ready()
		if err != nil {
			return err
		}
		h.add(took)
		return c.end()
	}
	m := measured{latency: &hist{}, limit: "start of the same binary doing nothing", latencyOf: "start of the process to first task done, seen by the parent"}
	round := func(what string) (*hist, error) {
		h := &hist{}
		for start := time.Now(); h.n == 0 || time.Since(start) < p.Slice; {
			if err := launched(what, h); err != nil {
				return nil, err
			}
		}
		return h, nil
	}
	for range p.Rounds {
		v, err := round(childFirstTask)
		if err != nil {
			return m, err
		}
		l, err := round(childNothing)
		if err != nil {
			return m, err
		}
		m.rounds, m.limits = append(m.rounds, us(v.quantile(0.5))), append(m.limits, us(l.quantile(0.5)))
		m.latency.merge(v)
	}
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	return m, nil
}

// nodeIdle reads the resident memory of a child while it waits.
func nodeIdle(ctx context.Context, p Plan) (measured, error) {
	m := measured{limit: "the same binary doing nothing"}
	resident := func(what string) (float64, error) {
		c, err := launch(ctx, p, what)
		if err != nil {
			return 0, err
		}
		if _, err := c.ready(); err != nil {
			return 0, err
		}
		v, err := residentBytes(strconv.Itoa(c.cmd.Process.Pid))
		return float64(v), errors.Join(err, c.end())
	}
	for range p.Rounds {
		v, err := resident(childIdleNode)
		if err != nil {
			return m, err
		}
		l, err := resident(childNothing)
		if err != nil {
			return m, err
		}
		m.rounds, m.limits = append(m.rounds, v), append(m.limits, l)
	}
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("source", "VmRSS of /proc/PID/status, which counts the pages of the binary that were read too")
	return m, nil
}

// residentBytes returns VmRSS of a process, or of this one for "self". It needs Linux.
func residentBytes(pid string) (uint64, error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, fmt.Errorf("read resident memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("read resident memory: no VmRSS in /proc/" + pid + "/status")
}
