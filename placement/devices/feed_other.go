//go:build !unix

package devices

import "os"

// pipeOf returns nil: only on Unix does a child process inherit the pipe.
func pipeOf(string) *os.File { return nil }
