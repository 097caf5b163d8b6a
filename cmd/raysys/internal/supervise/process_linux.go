package supervise

import "syscall"

// attributes put the child into a group of its own and have the kernel kill it when the supervisor dies, however that
// happens: a worker without a supervisor would have nobody to report its death.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
