package door_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/raysys/raysys/testkit"
)

// TestClients: programs of other languages call a grain with a key, repeat that, read a problem and follow a stream, by what their standard
// libraries have.
func TestClients(t *testing.T) {
	for _, c := range [][2]string{{"python3", "testdata/client.py"}, {"node", "testdata/client.mjs"}} {
		t.Run(c[0], func(t *testing.T) {
			program, err := exec.LookPath(c[0])
			if err != nil {
				t.Skip(err)
			}
			s := serve(t, testkit.New(t, testkit.Nodes(2)).Node(), append(streams[:len(streams):len(streams)], twoCallers(t))...)
			cmd := exec.CommandContext(t.Context(), program, c[1], s.URL, aliceToken)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			const want = "5 5\n402 not enough money yes\n0 1 2 error\n14\n"
			if err != nil || string(out) != want {
				t.Errorf("%v %q, want %q", err, out, want)
			}
		})
	}
}
