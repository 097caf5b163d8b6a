package testkit

import (
	"context"
	"io"
	"os"

	"github.com/raysys/raysys/system"
)

// childDir is set in the processes that Processes starts: where they leave what the test shall read.
const childDir = "RAYSYS_TESTKIT_DIR"

// Main is the TestMain of a package whose tests use Processes: in a process that Processes started it is system.Main, and
// serves as a worker; else it runs the tests and exits.
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
func Main(m interface{ Run() int }) {
	Child()
	os.Exit(m.Run())
}

// Child is the first half of Main, for a TestMain that does more: it does not return in a process that Processes started.
func Child() {
	if os.Getenv(childDir) == "" {
		return
	}
	go func() { // the test's process ended, however it did, when the pipe does
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(orphaned)
	}()
	system.Main(func(ctx context.Context) error {
		<-ctx.Done() // a driver that a test asked for: it lives until it is told to end
		return nil
	})
}

// orphaned is how a process ends whose test is gone.
const orphaned = 70
