package testkit

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/subprocess"
)

// Proc is one worker process, through all its lives.
type Proc struct {
	t     testing.TB
	name  raysys.NodeID
	argv  []string
	env   []string
	log   *tail
	owned sync.WaitGroup // of the goroutines that wait for a process

	mu     sync.Mutex // guards the rest
	cmd    *exec.Cmd
	stdin  io.Closer     // closing it ends the process
	exited chan struct{} // closed when cmd ended
}

// tailBytes is how much of a process's output is kept for a test that fails.
const tailBytes = 64 << 10

// tail is the end of what a process wrote.
type tail struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p)
	if n := b.buf.Len() - tailBytes; n > 0 {
		b.buf.Next(n)
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs the process.
func (p *Proc) start() error {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	// Output that a grandchild holds open must not keep Wait from returning.
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	var ended <-chan struct{}
	if err == nil {
		ended, err = subprocess.Start(cmd)
	}
	if err != nil {
		return fmt.Errorf("start process %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.stdin, p.exited = cmd, stdin, exited
	p.mu.Unlock()
	p.owned.Go(func() {
		<-ended
		fmt.Fprintf(p.log, "[process %d ended: %v]\n", cmd.Process.Pid, cmd.ProcessState)
		close(exited)
	})
	return nil
}

// Name is the name of the process's node.
func (p *Proc) Name() raysys.NodeID { return p.name }

// PID is the process's id in its current life.
func (p *Proc) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Exited is closed when the process of this moment has ended.
func (p *Proc) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Runs reports whether the process runs, paused or not.
func (p *Proc) Runs() bool {
	select {
	case <-p.Exited():
		return false
	default:
		return true
	}
}

// Kill ends the process by SIGKILL and waits until it is gone.
func (p *Proc) Kill() {
	p.mu.Lock()
	_ = p.cmd.Process.Kill() // of a process that was waited for, this does nothing
	exited := p.exited
	p.mu.Unlock()
	<-exited
}

// Restart starts the process again, as a new incarnation of its node; one that runs is killed first. It does not wait until
// the node has joined: see Procs.Ready.
func (p *Proc) Restart() {
	p.t.Helper()
	p.Kill()
	if err := unmarked(p.start); err != nil {
		p.t.Fatalf("testkit: %v", err)
	}
}

// ExitCode is that of the last process, -1 when a signal ended it or it runs.
func (p *Proc) ExitCode() int {
	if p.Runs() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Output is the end of what the process wrote, in all its lives.
func (p *Proc) Output() string { return p.log.String() }

// close ends the process for good.
func (p *Proc) close() {
	p.Kill()
	p.owned.Wait()
}
