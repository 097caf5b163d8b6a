//go:build !linux

package bench

import (
	"errors"
	"os/exec"
)

var errNoSharing = errors.New("this system has no files in memory that another process can open")

func shareable([]byte) (string, func() error, error) { return "", nil, errNoSharing }

func mapFile(string, int) ([]byte, func() error, error) { return nil, nil, errNoSharing }

// cpus is empty: only Linux is known to pin.
func cpus() ([]int, error) { return nil, nil }

func startOn(*exec.Cmd, int) error { return errors.New("pin to a CPU: only Linux is known to") }
