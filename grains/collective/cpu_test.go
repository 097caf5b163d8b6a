package collective_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/raysys/raysys/testkit"
)

func cpuOf(p *testkit.Procs) (sum float64) {
	for i := 1; i <= 4; i++ {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Proc(i).PID()))
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
		var u, s float64
		fmt.Sscan(f[11], &u)
		fmt.Sscan(f[12], &s)
		sum += (u + s) * 10000 // µs
	}
	return sum
}

func TestCPU(t *testing.T) {
	p := fourProcesses(t)
	const n = 1500
	for i := range 4 {
		a := cpuOf(p)
		good := byAllReduce(t, p.Context(), fmt.Sprint("cpu", i), n, onProcess)
		b := cpuOf(p)
		bad := naively(t, p.Context(), n, onProcess)
		c := cpuOf(p)
		t.Logf("allreduce %.0f µs CPU, p50 %v; naive %.0f µs CPU, p50 %v", (b-a)/n, good.at(.5), (c-b)/n, bad.at(.5))
	}
}
