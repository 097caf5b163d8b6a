package supervise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
)

// drained is how long the streams of a process may stay open after its end: a child of it that left its process group
// may still hold them.
const drained = time.Second

// LaunchVariable names one start of the program. A node that keeps it in its record lets the report of its death be
// told from its successor, or from another node that was given the same name.
const LaunchVariable = "RAYSYS_LAUNCH"

// Command starts a program as a child that does not outlive this process (on Linux), in a process group of its own, so
// that a signal from the terminal comes to it by the supervisor alone.
type Command struct {
	Path   string
	Args   []string // without the program's name
	Env    []string // all of its environment
	Stdout io.Writer
	Stderr io.Writer
	Lines  *Lines
	Feed   *Feed // nil: the program hears nothing
}

// Launch starts it.
func (c *Command) Launch() (Process, error) {
	p := &child{lines: c.Lines, launch: rand.Text(), exited: make(chan Exit, 1), read: make(chan struct{})}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe for output: %w", err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make pipe for errors: %w", err), outR.Close(), outW.Close())
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(slices.Clip(c.Env), LaunchVariable+"="+p.launch)
	p.cmd.Stdout, p.cmd.Stderr = outW, errW // files, so that Wait does not wait for the streams
	p.cmd.SysProcAttr = attributes()
	p.streams = [2]*os.File{outR, errR}
	if p.ear, err = listen(p.cmd); err != nil {
		return nil, errors.Join(err, outR.Close(), outW.Close(), errR.Close(), errW.Close())
	}
	mouth, err := speak(c.Feed, p.cmd)
	if err != nil {
		p.ear.close()
		return nil, errors.Join(err, outR.Close(), outW.Close(), errR.Close(), errW.Close())
	}

	begin := time.Now()
	ended, err := subprocess.Start(p.cmd)
	outW.Close() // the child has its own
	errW.Close()
	p.ear.started()
	mouth.started()
	if err != nil {
		outR.Close()
		errR.Close()
		p.ear.close()
		mouth.close()
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	go mouth.run(ended)
	go func() { // ends with the process
		<-ended
		mouth.close()
		e := ExitOf(p.cmd.ProcessState, time.Since(begin))
		e.Launch, e.Told = p.launch, p.ear.heard(e)
		p.ear.close()
		p.exited <- e
	}()
	go func() { // ends with the streams, which Close sees to
		defer close(p.read)
		other := make(chan struct{}) // closed when standard error has ended
		go func() {
			defer close(other)
			c.Lines.copy("stderr", c.Stderr, errR)
		}()
		c.Lines.copy("stdout", c.Stdout, outR)
		<-other
	}()
	return p, nil
}

// child is a Process of the operating system.
type child struct {
	cmd     *exec.Cmd
	lines   *Lines
	launch  string
	streams [2]*os.File
	ear     ear
	exited  chan Exit     // gets one exit
	read    chan struct{} // closed when both streams have been read to their end
}

// ExitOf is the exit of a process that has ended after that time.
func ExitOf(s *os.ProcessState, ran time.Duration) Exit {
	return Exit{PID: s.Pid(), Ran: ran, Code: s.ExitCode(), Signal: signalOf(s)}
}

func (p *child) PID() int { return p.cmd.Process.Pid }

func (p *child) Exited() <-chan Exit { return p.exited }

func (p *child) Terminate() error { return terminate(p.cmd.Process) }

func (p *child) Kill() error { return killGroup(p.cmd.Process) }

func (p *child) Close() []string {
	killGroup(p.cmd.Process) // an error says that no process is left
	t := time.NewTimer(drained)
	defer t.Stop()
	select {
	case <-p.read:
	case <-t.C:
	}
	for _, f := range p.streams {
		f.Close() // ends a read that still waits
	}
	<-p.read
	return p.lines.Last()
}
