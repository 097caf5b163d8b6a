//go:build !unix

package bench

import "errors"

// stop is never called here: its row is not listed.
func (c *process) stop() error { return errors.New("stop child: this system has no SIGSTOP") }
