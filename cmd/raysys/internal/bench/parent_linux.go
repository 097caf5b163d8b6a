package bench

import (
	"os/exec"
	"syscall"
)

// endWithParent has a child killed when the benchmark is: a stopped one would not see that its input ended.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
