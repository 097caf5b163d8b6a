//go:build !unix

package subprocess

import "os/exec"

// InGroup does nothing: only Unix has process groups.
func InGroup(*exec.Cmd) {}

// KillGroup kills the process of cmd alone.
func KillGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// KillTree kills the process of cmd alone.
func KillTree(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
