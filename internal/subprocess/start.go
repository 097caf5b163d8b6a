package subprocess

import (
	"os/exec"
	"runtime"
)

// Start starts cmd and waits for it: the channel is closed when the process has ended and cmd.ProcessState is set. The
// caller must not call cmd.Wait.
//
// One thread starts the process and lives as long as it does, because the kernel sends the parent-death signal when the
// thread that started the child ends, not the process.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	EndWithParent(cmd)
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState says what its error says
			close(done)
		}
	}()
	return done, <-started
}
