//go:build unix

package train

import (
	"math"
	"strings"
	"testing"

	"github.com/raysys/raysys/examples/gpu/cudatest"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/testkit"
)

// uuidOf is that of the GPU which RAYSYS_GPUS makes up on a node.
func uuidOf(t *testing.T, node string) string {
	t.Helper()
	w, err := devices.Open("fake:h100x1", devices.Config{Host: node})
	if err != nil {
		t.Fatal(err)
	}
	return w.Inventory().Devices[0].UUID
}

// TestKilled: SIGKILL of the process that trains costs no more than the steps since the last snapshot. The processes have one GPU
// each, whose library runs our PTX.
func TestKilled(t *testing.T) {
	long.Only(t)
	folder := cudatest.Build(t)
	if folder == "" {
		return
	}
	name := func(i int) string { return "p" + string(rune('0'+i)) }
	k := testkit.Processes(t, 3, testkit.CPU(1), testkit.Env("LD_LIBRARY_PATH="+folder), testkit.EnvOf(func(i int) []string {
		return []string{"RAYSYS_GPUS=fake:h100x1", "FAKE_CUDA_UUIDS=" + uuidOf(t, name(i))}
	}))
	ctx, g := k.Context(), onDevice.kind.Get("a")
	host := func(p Progress) int {
		t.Helper()
		for i := 1; i <= k.Size(); i++ {
			if strings.Contains(p.Where, uuidOf(t, name(i))) {
				return i
			}
		}
		t.Fatalf("%+v is on no GPU of these processes", p)
		return 0
	}
	must(t)(onDevice.begin.Call(ctx, g, job).Get(ctx))
	p := reach(t, ctx, onDevice, 27)
	if p.Saved != 20 {
		t.Fatalf("after 27 steps %+v, want a snapshot of step 20", p)
	}
	during := onDevice.step.Call(ctx, g, 60)
	k.Proc(host(p)).Kill()
	must(t)(during.Get(ctx))
	if p = reach(t, ctx, onDevice, 70); p.From < 20 {
		t.Errorf("after SIGKILL the trainer goes on from step %d, and had a snapshot of step 20", p.From)
	}
	to := p.Step + 10
	p = must(t)(Run(ctx, "a", job, to, func(Progress) {}))
	if p.Step != to || math.Abs(p.Loss-lossOf(t, to)) > 1e-3 {
		t.Errorf("in the end %+v, want the loss %g of a training that nothing happened to", p, lossOf(t, to))
	}
}
