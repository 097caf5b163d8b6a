//go:build unix

package subprocess

import (
	"os/exec"
	"syscall"
)

// InGroup has the process of cmd, which has not been started, lead a process group of its own. KillGroup ends it with the processes
// that it has started.
func InGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// KillGroup kills the processes of the group that cmd leads, also when cmd itself has just ended.
func KillGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
