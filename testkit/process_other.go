//go:build !linux

package testkit

import "os/exec"

// endWithParent leaves it to the pipe: only Linux ends a process with its parent.
func endWithParent(*exec.Cmd) {}

// stopped cannot tell here.
func stopped(int) bool { return true }
