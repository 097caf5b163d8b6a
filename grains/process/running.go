package process

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/subprocess"
	"github.com/raysys/raysys/system"
)

//go:embed worker.py
var worker string

// bootstrap reads worker.py from descriptor 3, so that no file is needed and the list of processes stays readable.
const bootstrap = "import os; frames = os.fdopen(3, 'rb'); " +
	"exec(compile(frames.read(int.from_bytes(frames.read(4), 'little')), 'worker.py', 'exec'))"

// outputDelay is how long the output of a child that has ended is waited for. A process that it has left behind may hold it.
const outputDelay = time.Second

// running is one child process.
type running struct {
	name     string
	limit    int // of a frame
	cmd      *exec.Cmd
	to, from *os.File
	out      *bufio.Writer
	in       *bufio.Reader
	stderr   *output
	ended    <-chan struct{} // closed by subprocess: it has ended
	gone     chan struct{}   // closed by wait: its group, too
	broken   bool            // it is of no use any more
}

// start starts a process for the turn of ctx.
func start(ctx context.Context, cfg *Config, name string) (*running, error) {
	node := system.NodeOf(ctx)
	if node == nil {
		return nil, raysys.ErrNoRuntime
	}
	command := cfg.Command
	if len(command) == 0 {
		command = []string{cmp.Or(cfg.Python, os.Getenv("RAYSYS_PYTHON"), "python3"), "-u", "-c", bootstrap}
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), to.Close())
	}
	r := &running{name: name, limit: cfg.maxFrame(), to: to, from: from, gone: make(chan struct{})}
	r.out = bufio.NewWriterSize(timed{to, to.SetWriteDeadline, cfg.heartbeat()}, 64<<10)
	r.in = bufio.NewReaderSize(timed{from, from.SetReadDeadline, cfg.heartbeat()}, 64<<10)
	r.cmd = exec.Command(command[0], command[1:]...)
	r.cmd.Dir, r.cmd.WaitDelay = cfg.Dir, outputDelay
	r.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	r.cmd.Env = append(os.Environ(), fmt.Sprint("PYTHONHASHSEED=", cfg.seed(name)))
	r.cmd.Env = append(append(r.cmd.Env, cfg.Env...), raysys.DeviceEnv(ctx)...)
	log := node.Log().With("grain", name)
	stdout := &output{line: func(s string) { log.Info("process output", "line", s) }}
	r.stderr = &output{line: func(s string) { log.Info("process error output", "line", s) }}
	r.cmd.Stdout, r.cmd.Stderr = stdout, r.stderr
	subprocess.InGroup(r.cmd)
	r.ended, err = subprocess.Start(r.cmd)
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if err != nil {
		r.close()
		return nil, err
	}
	go r.wait(stdout)
	if len(cfg.Command) == 0 {
		_, _ = r.out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(worker))))
		_, _ = r.out.WriteString(worker) // what is wrong is found by the first message
	}
	return r, nil
}

// wait kills what the child has left behind.
func (r *running) wait(stdout *output) {
	<-r.ended
	subprocess.KillGroup(r.cmd)
	stdout.flush()
	r.stderr.flush()
	close(r.gone)
}

// kill kills the child and its group.
func (r *running) kill() {
	select {
	case <-r.ended:
	default:
		subprocess.KillGroup(r.cmd)
	}
}

func (r *running) close() {
	_ = r.to.Close()
	_ = r.from.Close()
}

// timed gives each read and each write its time.
type timed struct {
	f     *os.File
	until func(time.Time) error
	limit time.Duration
}

func (t timed) begin() {
	if t.limit > 0 {
		_ = t.until(time.Now().Add(t.limit))
	}
}

func (t timed) Read(p []byte) (int, error) { t.begin(); return t.f.Read(p) }

func (t timed) Write(p []byte) (int, error) { t.begin(); return t.f.Write(p) }

// exchange sends a message and waits for the answer to it. It kills the child when ctx ends first.
func (r *running) exchange(ctx context.Context, m *message) (frameKind, message, error) {
	goes := context.AfterFunc(ctx, r.kill)
	err := m.write(r.out, callFrame, r.limit)
	if errors.Is(err, ErrValue) || errors.Is(err, raysys.ErrTooLarge) {
		goes()
		return 0, message{}, fmt.Errorf("%s: %s: %w", r.name, m.Method, err) // nothing was sent
	}
	if err == nil {
		err = r.out.Flush()
	}
	var kind frameKind
	var body []byte
	for err == nil {
		if kind, body, err = readFrame(r.in, r.limit); kind != beatFrame {
			break
		}
	}
	var reply message
	if err == nil && kind == callFrame {
		err = fmt.Errorf("%w: a call", ErrProtocol)
	}
	if err == nil {
		reply, err = decode(body)
	}
	if !goes() {
		r.kill()
		<-r.gone
		r.broken = true
		return 0, message{}, fmt.Errorf("%s: %s: the child process was killed: %w", r.name, m.Method, context.Cause(ctx))
	}
	if err != nil {
		return 0, message{}, r.exit(err)
	}
	return kind, reply, nil
}

// exit kills a child with which no exchange is possible because of err, and says how it has ended.
func (r *running) exit(err error) error {
	var why error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = ErrSilent
	case errors.Is(err, ErrProtocol), errors.Is(err, raysys.ErrTooLarge):
		why = err
	default:
		// It has closed its pipes, and ends by itself: its status is its own.
		select {
		case <-r.ended:
		case <-time.After(outputDelay):
		}
	}
	r.kill()
	<-r.gone
	r.broken = true
	e := &ExitError{r.name, r.cmd.ProcessState.String(), strings.Join(r.stderr.last, "\n")}
	if why != nil {
		return fmt.Errorf("%w: %w", e, why)
	}
	return e
}

// raised makes an error of an exception of the child's.
func (r *running) raised(method string, f *failure) error {
	if f == nil {
		f = &failure{Type: "unknown"}
	}
	if f.Large > 0 {
		return fmt.Errorf("%s: the result of %s: %w", r.name, method, tooLarge(f.Large, r.limit))
	}
	e := &Error{Process: r.name, Method: method, Type: f.Type, Message: f.Message, Traceback: f.Traceback}
	if f.Env != nil {
		return &envRaised{e, *f.Env, f.Shape}
	}
	return e
}
