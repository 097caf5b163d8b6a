package faults_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

var figures = flag.String("figures", "", "append what was measured to this file")

func TestMain(m *testing.M) {
	if dir := os.Getenv(seededVariable); dir != "" {
		seededDriver(dir)
	}
	testkit.Main(m)
}

// figure reports what a test measured: in its log, and in the file of -figures unless it failed.
func figure(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	if *figures == "" || t.Failed() {
		return
	}
	f, err := os.OpenFile(*figures, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "| %s | %s | `go test ./internal/faults -long -run '^%s$'` |\n", t.Name(), line, t.Name())
}

// spread is the middle, the p99 and the worst of what was measured.
type spread []time.Duration

func (s spread) String() string {
	if len(s) == 0 {
		return "none"
	}
	slices.Sort(s)
	at := func(i int) time.Duration { return s[i].Round(time.Millisecond) }
	return fmt.Sprintf("median %v, p99 %v, worst %v of %d", at(len(s)/2), at(len(s)*99/100), at(len(s)-1), len(s))
}

func (s spread) worst() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// pause waits between two faults. Where a test runs in virtual time, so does the pause.
func pause(d time.Duration) { <-time.After(d) }

// onDisk is where a Consul keeps its data: on disk in the long forms, whose figures it belongs to. The short ones run beside
// whatever else the machine does, and a disk that stalls for a lease suspends every node.
func onDisk(o ...testkit.ConsulOption) []testkit.ConsulOption {
	if long.Form(false, true) {
		o = append(o, testkit.OnDisk())
	}
	return o
}
