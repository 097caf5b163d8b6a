//go:build unix

package testkit

import (
	"syscall"

	"github.com/raysys/raysys/internal/subprocess"
)

// Pause stops the process by SIGSTOP: its connections stay open, its clocks go on, and nothing in it runs.
func (p *Proc) Pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	Eventually(p.t, joinLimit, "process "+string(p.name)+" stops", func() bool { return subprocess.Stopped(p.PID()) })
}

// Resume ends Pause, by SIGCONT.
func (p *Proc) Resume() { p.signal(syscall.SIGCONT) }

// Terminate asks the process to end, by SIGTERM: a worker drains first. Exited tells when it has.
func (p *Proc) Terminate() { p.signal(syscall.SIGTERM) }

func (p *Proc) signal(s syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("testkit: send %v to process %s: %v", s, p.name, err)
	}
}
