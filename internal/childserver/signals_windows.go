package childserver

import (
	"os/exec"
	"syscall"
)

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Terminate kills the server: Windows has no signal that asks.
func (p *Process) Terminate() error { return p.cmd.Process.Kill() }
