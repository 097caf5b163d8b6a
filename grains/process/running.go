package process

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/subprocess"
	"github.com/raysys/raysys/system"
)

var (
	//go:embed worker.py
	worker string
	//go:embed vectors.py
	vectors string
)

// bootstrap reads worker.py from descriptor 3, so that no file is needed and the list of processes stays readable. It takes the working
// directory, from which Python would import first, out of the path: worker.py brings it back behind its own imports.
const bootstrap = "import sys; folder = sys.path.pop(0) if sys.path[:1] == [''] else None; import os; frames = os.fdopen(3, 'rb'); " +
	"exec(compile(frames.read(int.from_bytes(frames.read(4), 'little')), 'worker.py', 'exec'))"

// outputDelay is how long the output of a child that has ended is waited for. A process that it has left behind may hold it.
const outputDelay = time.Second

// usualPipe is what a pipe holds by itself.
const usualPipe = 64 << 10

// starts bounds how many children start at the same time: each takes a CPU or more for that. A process is a node, but for tests.
var starts = make(chan struct{}, runtime.GOMAXPROCS(0))

// running is one child process, or one that is to be.
type running struct {
	name  string
	limit int // of a frame
	begun time.Time
	kill  context.CancelFunc     // ends the process, and a start
	doing atomic.Pointer[string] // what it does while it starts
	up    chan struct{}          // closed by start: the object is made, or err says why not
	err   error
	seen  bool // a turn has found it up

	stderr *output
	turn   atomic.Pointer[core.Turn] // that began it, or called it last: what it prints is that work's

	// Set before up is closed, and nil where there is no process.
	cmd      *exec.Cmd
	to, from *os.File
	shared   *os.File // memory of decoder; nil where the child has none
	decoder  decoder
	out      *bufio.Writer
	in       *bufio.Reader
	patience time.Duration   // Config.Heartbeat
	silence  time.Duration   // that a read, or a write, may take: patience, once the child has said something
	ended    <-chan struct{} // closed by subprocess: it has ended
	gone     chan struct{}   // closed by wait: its group, too
	broken   bool            // it is of no use any more
	wide     bool            // the pipe from it was widened
}

// launch starts a child for the grain of ctx: the turn may end before the child is up.
func launch(ctx context.Context, cfg *Config, name string) (*running, error) {
	node := system.NodeOf(ctx)
	if node == nil {
		return nil, raysys.ErrNoRuntime
	}
	life, kill := context.WithCancel(context.Background())
	r := &running{name: name, limit: cfg.maxFrame(), decoder: decoder{limit: cfg.maxFrame()}, patience: cfg.heartbeat(), begun: time.Now(), kill: kill, up: make(chan struct{})}
	env := append(inherited(os.Environ()), fmt.Sprint("PYTHONHASHSEED=", cfg.seed(name)))
	env = append(append(env, cfg.Env...), raysys.DeviceEnv(ctx)...)
	r.serves(ctx)
	stdout := &output{line: func(s string) { core.LoggerOf(r.turn.Load()).Info(s, "output", "stdout") }}
	r.stderr = &output{line: func(s string) { core.LoggerOf(r.turn.Load()).Info(s, "output", "stderr") }}
	r.does(fmt.Sprintf("waiting for others: %d children start at a time", cap(starts)))
	go r.start(life, cfg, env, stdout, starts)
	go func() {
		select {
		case <-node.Done(): // Close waits for OnActivate
			kill()
		case <-r.up:
		}
	}()
	return r, nil
}

// serves says whose work the child does.
func (r *running) serves(ctx context.Context) {
	if t, _, err := core.TurnOf(ctx); err == nil {
		r.turn.Store(t)
	}
}

// inherited is what of the node's environment its children get. Settings of the node and of its store have tokens and passwords.
func inherited(env []string) []string {
	return slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, "CONSUL_") || strings.HasPrefix(s, "RAYSYS_") })
}

// start makes the process, and the object in it, when there is room in slots.
func (r *running) start(life context.Context, cfg *Config, env []string, stdout *output, slots chan struct{}) {
	defer close(r.up)
	select {
	case slots <- struct{}{}:
	case <-life.Done():
		r.err = life.Err()
		return
	}
	defer func() { <-slots }()
	r.does("")
	defer func() {
		if p := recover(); p != nil { // Args have methods of the program, and this is no turn of a grain
			r.err = fmt.Errorf("%s: start a child process: panic: %v\n%s", r.name, p, debug.Stack())
		}
		if r.err != nil {
			r.kill() // there is no object to call
		}
	}()
	if r.err = r.spawn(life, cfg, env, stdout); r.err == nil {
		r.err = r.begin(life, cfg)
	}
}

// begin sends the first message to the child, which makes the object.
func (r *running) begin(life context.Context, cfg *Config) error {
	first := beginning{
		Script: cfg.Script, New: cfg.New, Args: cfg.Args, Seed: cfg.seed(r.name), Envs: cfg.Envs, Gym: cfg.Gym, Limit: r.limit,
		Beat: max(cfg.heartbeat().Seconds()/4, 0), Own: cfg.Own, Autoreset: cfg.Autoreset, Flatten: cfg.Flatten, Shared: r.shared != nil,
	}
	if cfg.Envs > 0 && len(cfg.Command) == 0 {
		first.Vectors = vectors
	}
	values, err := json.Marshal(first)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(life, cfg.start())
	defer cancel()
	if _, err = r.exchange(ctx, &message{Values: values}); r.broken && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w, and Config.Start is %v: %w", r.starting(), cfg.start(), r.exited())
	}
	return err
}

// spawn starts the process.
func (r *running) spawn(life context.Context, cfg *Config, env []string, stdout *output) error {
	if cfg.Dir != "" { // the kernel's error would name the program
		if dir, err := os.Stat(cfg.Dir); err != nil {
			return fmt.Errorf("%s: start a child process: Config.Dir: %w", r.name, err)
		} else if !dir.IsDir() {
			return fmt.Errorf("%s: start a child process: Config.Dir: %s is no directory", r.name, cfg.Dir)
		}
	}
	command := cfg.Command
	if len(command) == 0 {
		command = []string{cmp.Or(cfg.Python, os.Getenv("RAYSYS_PYTHON"), "python3"), "-u", "-c", bootstrap}
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		return err
	}
	r.to = to
	from, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, theirIn.Close())
	}
	r.from = from
	r.out = bufio.NewWriterSize(timed{to, to.SetWriteDeadline, &r.silence}, 64<<10)
	r.in = bufio.NewReaderSize(timed{from, from.SetReadDeadline, &r.silence}, 64<<10)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = cfg.Dir, env, outputDelay
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if len(cfg.Command) == 0 {
		if r.shared = subprocess.SharedMemory(); r.shared != nil {
			cmd.ExtraFiles, r.decoder.shared = append(cmd.ExtraFiles, r.shared), r.shared
		}
	}
	cmd.Stdout, cmd.Stderr = stdout, r.stderr
	subprocess.InGroup(cmd)
	ended, err := subprocess.Start(cmd)
	if err = errors.Join(err, theirIn.Close(), theirOut.Close()); err != nil {
		return fmt.Errorf("%s: start a child process: %w", r.name, err)
	}
	r.cmd, r.ended, r.gone = cmd, ended, make(chan struct{})
	go r.reapGroup(stdout)
	context.AfterFunc(life, r.end)
	if len(cfg.Command) == 0 {
		_, _ = r.out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(worker))))
		_, _ = r.out.WriteString(worker) // what is wrong is found by the first message
	}
	return nil
}

// does notes what the child does while it starts.
func (r *running) does(what string) { r.doing.Store(&what) }

// starting says since when the child starts, and what it does.
func (r *running) starting() error {
	err := fmt.Errorf("%s: %w: starting since %v", r.name, ErrStarting, time.Since(r.begun).Round(100*time.Millisecond))
	if what := *r.doing.Load(); what != "" {
		err = fmt.Errorf("%w: %s", err, what)
	}
	return err
}

// await waits until the child is up, or cannot be: then it is over. It ends before the deadline of ctx, so that the call still tells why it
// was in vain. A context without one is that of OnActivate: when it ends no grain is there for which the child could start.
func (r *running) await(ctx context.Context) (over bool, err error) {
	until, call := ctx.Deadline()
	if call {
		left := time.Until(until)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, left-min(left/10, 250*time.Millisecond), raysys.ErrDeadline)
		defer cancel()
	}
	select {
	case <-r.up:
		r.seen = r.err == nil
		return true, r.err
	case <-ctx.Done():
	}
	err = fmt.Errorf("%w: %w", r.starting(), context.Cause(ctx))
	if last := r.stderr.tail(); last != "" {
		err = fmt.Errorf("%w\n%s", err, last)
	}
	return !call, err
}

// reapGroup kills what the child has left behind.
func (r *running) reapGroup(stdout *output) {
	<-r.ended
	subprocess.KillGroup(r.cmd)
	stdout.flush()
	r.stderr.flush()
	close(r.gone)
}

// end kills the child, its group, and what descends from it.
func (r *running) end() {
	select {
	case <-r.ended:
	default:
		subprocess.KillTree(r.cmd)
	}
}

// stop ends the child, or its start, and waits until it is gone.
func (r *running) stop() {
	r.kill()
	<-r.up
	if r.gone != nil {
		<-r.gone
	}
	_ = r.to.Close() // nil.Close is an error, and no panic
	_ = r.from.Close()
	_ = r.shared.Close()
}

// timed gives each read and each write its time.
type timed struct {
	f     *os.File
	until func(time.Time) error
	limit *time.Duration
}

func (t timed) begin() {
	if *t.limit > 0 {
		_ = t.until(time.Now().Add(*t.limit))
	}
}

func (t timed) Read(p []byte) (int, error) { t.begin(); return t.f.Read(p) }

func (t timed) Write(p []byte) (int, error) { t.begin(); return t.f.Write(p) }

// exchange sends a message and waits for the answer to it. It kills the child when ctx ends first.
func (r *running) exchange(ctx context.Context, m *message) (message, error) {
	goes, what := context.AfterFunc(ctx, r.kill), r.name+": "+cmp.Or(m.Method, "start")
	err := m.write(r.out, callFrame, r.limit)
	if errors.Is(err, ErrValue) || errors.Is(err, raysys.ErrTooLarge) {
		goes()
		return message{}, fmt.Errorf("%s: %w", what, err) // nothing was sent
	}
	if err == nil {
		err = r.out.Flush()
	}
	var kind frameKind
	var body []byte
	for err == nil {
		kind, body, err = readFrame(r.in, r.limit)
		r.silence = r.patience
		if kind != beatFrame {
			break
		}
		r.heard(body)
	}
	if len(body) > usualPipe && !r.wide {
		r.wide = true
		subprocess.WidenPipe(r.from)
	}
	var reply message
	if err == nil && kind == callFrame {
		err = fmt.Errorf("%w: a call", ErrProtocol)
	}
	if err == nil {
		reply, err = r.decoder.decode(body, kind)
	}
	switch {
	case !goes():
		r.kill()
		<-r.gone
		r.broken = true
		return message{}, fmt.Errorf("%s: the child process was killed: %w", what, context.Cause(ctx))
	case err != nil:
		return message{}, r.exit(err)
	case kind == failureFrame:
		return reply, r.raised(m.Method, reply.Failure)
	}
	return reply, nil
}

// heard takes a sign of life. One of a child that starts says what it does.
func (r *running) heard(body []byte) {
	if len(body) == 0 {
		return
	}
	if m, err := new(decoder).decode(body, beatFrame); err == nil && m.Doing != "" {
		r.does(printable([]byte(m.Doing)))
	}
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
	if why != nil {
		return fmt.Errorf("%w: %w", r.exited(), why)
	}
	return r.exited()
}

// exited says how the child, which is gone, has ended.
func (r *running) exited() error {
	return &ExitError{r.name, r.cmd.ProcessState.String(), r.stderr.tail()}
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
