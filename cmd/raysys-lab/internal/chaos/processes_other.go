//go:build !unix

package chaos

import "testing"

// Worker does nothing: there are no rounds with processes here.
func Worker() {}

// RunProcesses needs SIGSTOP.
func RunProcesses(t *testing.T, o Round, rep *Report, _ func(string)) {
	rep.Round = o
	t.Fatal("rounds with processes need the signals of a Unix")
}
