package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
	"github.com/raysys/raysys/system"
)

// process is a child and both ends of the pipe to it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // closed by end
	out   *bufio.Reader
	talk  bytes.Buffer // its standard error, for the error when it fails
	start time.Time
	ended bool
	still bool // stopped or killed: it does not see the end of its input
}

// anywhere is the CPU of a process that may run on all.
const anywhere = -1

// launch starts this binary again with the command args.
func launch(ctx context.Context, p Plan, args ...string) (*process, error) {
	return launchOn(ctx, p, anywhere, args...)
}

// launchOn is launch for a process that may use one CPU only.
func launchOn(ctx context.Context, p Plan, cpu int, args ...string) (*process, error) {
	self := p.Self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find own binary: %w", err)
		}
	}
	c := &process{cmd: exec.CommandContext(ctx, self, append([]string{ChildCommand}, args...)...)}
	c.cmd.Stderr = &c.talk
	subprocess.EndWithParent(c.cmd)
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	begin := c.cmd.Start
	if cpu != anywhere {
		begin = func() error { return startOn(c.cmd, cpu) }
	}
	c.start = time.Now()
	if err := begin(); err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	return c, nil
}

// launchReady is launchOn, and waits until the child is ready.
func launchReady(ctx context.Context, p Plan, cpu int, args ...string) (*process, error) {
	c, err := launchOn(ctx, p, cpu, args...)
	if err != nil {
		return nil, err
	}
	_, err = c.ready()
	return c, err
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

// end lets the child go and waits for it. Further calls do nothing.
func (c *process) end() error {
	switch {
	case c.ended:
		return nil
	case c.still:
		return c.kill()
	}
	c.ended = true
	c.in.Close()
	io.Copy(io.Discard, c.out)
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("child %s: %w: %s", strings.Join(c.cmd.Args[1:], " "), err, strings.TrimSpace(c.talk.String()))
	}
	return nil
}

// line reads one line of the child's output. When there is none, the child's error output is the error.
func (c *process) line() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		if e := c.end(); e != nil {
			err = e
		}
		return "", fmt.Errorf("read child: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// pid is the process's id.
func (c *process) pid() int { return c.cmd.Process.Pid }

// strike kills a child and does not wait for its end.
func (c *process) strike() error {
	c.still = true
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill child: %w", err)
	}
	return nil
}

// kill ends a child whose own end would take longer than its measurement, or that has been ended already.
func (c *process) kill() error {
	if c.ended {
		return nil
	}
	c.ended = true
	if err := c.strike(); err != nil {
		return err
	}
	c.cmd.Wait() // says that it was killed
	return nil
}

// nodeStart measures from just before the process is started to the moment the parent has read that it is ready.
func nodeStart(ctx context.Context, p Plan) (measured, error) {
	m, err := compareStarts(ctx, p, childFirstTask)
	m.latencyOf = "start of the process to first task done, seen by the parent"
	return m, err
}

// compareStarts measures how long a child takes until it is ready, beside one that does nothing.
func compareStarts(ctx context.Context, p Plan, args ...string) (measured, error) {
	// One launch is a few milliseconds: several make a round, so that p99 means something.
	p.Slice = min(p.Slice, 100*time.Millisecond)
	launched := func(what []string, h *hist) error {
		c, err := launch(ctx, p, what...)
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
	m := measured{latency: &hist{}, limit: "start of the same binary doing nothing"}
	round := func(what ...string) (*hist, error) {
		h := &hist{}
		for start := time.Now(); h.n == 0 || time.Since(start) < p.Slice; {
			if err := launched(what, h); err != nil {
				return nil, err
			}
		}
		return h, nil
	}
	for range p.Rounds {
		v, err := round(args...)
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
	for range p.Rounds {
		v, err := resident(ctx, p, childIdleNode)
		if err != nil {
			return m, err
		}
		l, err := resident(ctx, p, childNothing)
		if err != nil {
			return m, err
		}
		m.rounds, m.limits = append(m.rounds, v), append(m.limits, l)
	}
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("source", residentSource)
	return m, nil
}

const residentSource = "VmRSS of /proc/PID/status, which counts the pages of the binary that were read too"

// resident starts a child, reads its resident memory when it is ready, and ends it.
func resident(ctx context.Context, p Plan, what string) (float64, error) {
	c, err := launch(ctx, p, what)
	if err != nil {
		return 0, err
	}
	if _, err := c.ready(); err != nil {
		return 0, err
	}
	v, err := residentBytes(strconv.Itoa(c.pid()))
	return float64(v), errors.Join(err, c.end())
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

// ChildCommand is the hidden command under which a binary that measures child processes must call Child.
const ChildCommand = "bench-child"

// The commands of a child. It obeys lines of its input where its command says so, and waits for the end of its input.
const (
	childNothing   = "nothing"    // say so
	childFirstTask = "first-task" // start a node, run one task, say so
	childIdleNode  = "idle-node"  // start a node, say so
	childGrains    = "grains"     // N: activate grains, write an idleReport
	childWorker    = "worker"     // CLUSTER CONSUL NAME OPTIONS: join as a worker, say so
	childEcho      = "echo"       // BYTES: be the raw end of connections, say where
	childPing      = "ping"       // ADDRESS BYTES: measure a raw ping-pong
	childCaller    = "caller"     // CLUSTER CONSUL OPERATION: join as a driver, measure the operation
	childDrain     = "drain"      // ADDRESS BYTES CERTS NODE: read raw streams when the input says so, write how long it took
	childMap       = "map"        // map files when the input says so, write how long it took
	childSizes     = "sizes"      // CLUSTER CONSUL OPERATION: join as a driver, write a sizesReport of the operation
)

// child is one thing that a child does.
type child struct {
	args int // how many arguments it takes
	run  func(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error
}

func children() map[string]child {
	return map[string]child{
		childNothing: {0, func(_ context.Context, _ Plan, _ []string, in io.Reader, out io.Writer) error {
			return sayAndWait(in, out)
		}},
		childFirstTask: {0, firstTask},
		childIdleNode: {0, func(ctx context.Context, p Plan, _ []string, in io.Reader, out io.Writer) error {
			return withNode(ctx, p, func(context.Context, *system.Node) error { return sayAndWait(in, out) })
		}},
		childGrains: {1, holdGrains},
		childWorker: {4, work},
		childEcho:   {1, beEcho},
		childPing:   {2, pingEcho},
		childCaller: {3, callAcross},
		childDrain:  {4, beDrain},
		childMap:    {0, beMapper},
		childSizes:  {3, sizeUp},
	}
}

// Child is the process that a row started. args are its command, and it ends with its input. All begin with the same
// start of a binary, so that childNothing is the raw limit of the others.
func Child(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		if c, ok := children()[args[0]]; ok && len(args)-1 == c.args {
			return c.run(ctx, p, args[1:], in, out)
		}
	}
	return &SelectionError{fmt.Sprintf("%s is for the rows of raysys-lab bench that need a process of their own: use raysys-lab bench", ChildCommand)}
}

func firstTask(ctx context.Context, p Plan, _ []string, in io.Reader, out io.Writer) error {
	return withNode(ctx, p, func(ctx context.Context, _ *system.Node) error {
		v, err := increment.Go(ctx, 1).Get(ctx)
		if err != nil {
			return err
		}
		if err := expect(v, raw(1)); err != nil {
			return err
		}
		return sayAndWait(in, out)
	})
}

func holdGrains(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	n, err := positive("number of grains", args[0])
	if err != nil {
		return err
	}
	return idleGrains(ctx, p, n, func(rep idleReport) error {
		if err := json.NewEncoder(out).Encode(rep); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, in)
		return err
	})
}

// positive reads an argument.
func positive(what, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, &SelectionError{fmt.Sprintf("%s %q: give 1 or more", what, s)}
	}
	return n, nil
}

// readyLine is how a child says that it has come as far as its parent measures.
const readyLine = "ready\n"

// sayAndWait leaves the process as it is for as long as the parent looks at it.
func sayAndWait(in io.Reader, out io.Writer) error { return sayWait(readyLine, in, out) }

func sayWait(line string, in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, line); err != nil {
		return fmt.Errorf("tell parent: %w", err)
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
