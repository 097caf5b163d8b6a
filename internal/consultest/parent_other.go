//go:build !linux

package consultest

import "os/exec"

// endWithParent does nothing: only Linux can end a process with its parent.
func endWithParent(*exec.Cmd) {}

// stopped takes the signal's word for it.
func stopped(int) bool { return true }
