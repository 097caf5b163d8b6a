package consultest

import (
	"os/exec"
	"syscall"
)

// endWithParent has the server killed when the test process is, which then closes nothing.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
