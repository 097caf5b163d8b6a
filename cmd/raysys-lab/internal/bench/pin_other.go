//go:build !linux

package bench

import (
	"errors"
	"os/exec"
)

// cpus is empty: only Linux is known to pin.
func cpus() ([]int, error) { return nil, nil }

func startOn(*exec.Cmd, int) error { return errors.New("pin to a CPU: only Linux is known to") }
