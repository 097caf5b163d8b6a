package door_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/raysys/raysys/door"
)

// TestAgent: the client of Python's package mcp lists and calls tools; it holds each result against the tool's schema.
func TestAgent(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "venv", "bin", "python")
	for _, cmd := range [][]string{{"python3", "-m", "venv", filepath.Join(dir, "venv")}, {python, "-m", "pip", "install", "-q", "mcp==2.3.0"}} {
		if out, err := exec.CommandContext(t.Context(), cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no client of Python: %s: %v: %.200q", cmd[len(cmd)-1], err, out)
		}
	}
	const token = "0123456789abcdef"
	file := filepath.Join(dir, "tokens")
	if err := os.WriteFile(file, []byte("agent "+token), 0o600); err != nil {
		t.Fatal(err)
	}
	who, err := door.Tokens(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/agent.py", serve(t, door.Callers(who)).URL+"/mcp", token)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	const want = `lasting_add lasting_drop odd__kind__shop_grow odd__kind__shop_orders odd__kind__shop_put rows train train_result train_start
lasting_add {"result": 5} 
lasting_add {"result": 5} 
lasting_add null raysys:bad-argument
odd__kind__shop_put {"result": {"id": "0", "at": "0001-01-01T00:00:00Z", "for": 0, "raw": null, "named": null, "pair": [0, 0]}} 
rows {"ended": true, "items": [{"Left": {"Left": null, "Right": null}, "Right": null}, {"Left": {"Left": null, "Right": null}, "Right": null}]} 
train_result {"result": 7, "running": false} 
`
	if err != nil || string(out) != want {
		t.Errorf("%v %s", err, out)
	}
}
