package testkit

import (
	"os/exec"
	"syscall"
)

// endWithParent has a process killed when the test's is, also one that is stopped and would not see its pipe end.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
