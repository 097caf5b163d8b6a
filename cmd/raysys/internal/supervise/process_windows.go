package supervise

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate kills: Windows has no signal that asks.
func terminate(p *os.Process) error { return p.Kill() }

func killGroup(p *os.Process) error { return p.Kill() }

func signalOf(*os.ProcessState) string { return "" }
