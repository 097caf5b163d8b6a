//go:build !linux

package subprocess

import "os/exec"

// EndWithParent does nothing: only Linux ends a process with its parent.
func EndWithParent(*exec.Cmd) {}

// Stopped takes the signal's word for it.
func Stopped(int) bool { return true }
