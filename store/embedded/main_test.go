//go:build unix

package embedded_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// childVar has the test binary run one of the children below instead of its tests.
const childVar = "RAYSYS_EMBEDDED_CHILD"

var children = map[string]func(dir string) error{
	"count": countForEver,
	"hold":  holdOpen,
	"fill":  fillUp,
	"open":  openOnly,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(childVar); name != "" {
		if err := children[name](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child returns a command that runs a child on dir.
func child(t testing.TB, name, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, dir)
	cmd.Env = append(os.Environ(), childVar+"="+name)
	return cmd
}
