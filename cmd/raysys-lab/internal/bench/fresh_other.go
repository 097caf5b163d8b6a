//go:build !unix

package bench

import (
	"errors"
)

// fresh is memory that is new to this process.
func fresh(n int) ([]byte, error) { return make([]byte, n), nil }

// giveBack returns memory of fresh.
func giveBack([]byte) error { return nil }

// stop is never called here: its row is not listed.
func (c *process) stop() error { return errors.New("stop child: this system has no SIGSTOP") }
