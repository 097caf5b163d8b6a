//go:build unix && !linux

package supervise

import "syscall"

// attributes put the child into a group of its own. Outside Linux it outlives a supervisor that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
