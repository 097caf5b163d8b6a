package gputest

import (
	"encoding/csv"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/raysys/raysys/placement/devices"
)

// TestDevices: the GPUs, their names and their memory are those that nvidia-smi shows.
func TestDevices(t *testing.T) {
	gpu(t)
	found, _ := find()
	b, err := exec.CommandContext(limit(t), "nvidia-smi", "--query-gpu=uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Skipf("nvidia-smi, with which the devices are compared, says nothing: %v", err)
	}
	r := csv.NewReader(strings.NewReader(string(b)))
	r.TrimLeadingSpace = true
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatalf("nvidia-smi says %q: %v", b, err)
	}
	shown, driver := map[string][]string{}, ""
	for _, l := range lines {
		shown[l[0]], driver = l, l[3]
	}
	parents := map[string]bool{}
	for _, d := range found {
		row("device", "%s, %d MiB, %d MiB in use, driver %s", d.Model, d.Memory>>20, d.Used>>20, driver)
		if d.Sick != "" {
			t.Errorf("%s is sick: %s", d.UUID, d.Sick)
		}
		if d.GPU != "" { // an instance, which the query leaves out
			if parents[d.GPU] = true; shown[d.GPU] == nil {
				t.Errorf("nvidia-smi does not show %s, of which %s is an instance", d.GPU, d.UUID)
			}
			continue
		}
		parents[d.UUID] = true
		l := shown[d.UUID]
		if l == nil {
			t.Errorf("nvidia-smi does not show %s: %q", d.UUID, b)
			continue
		}
		mib, err := strconv.ParseInt(l[2], 10, 64)
		if off := d.Memory>>20 - mib; err != nil || off < -1 || off > 1 || d.Model != l[1] {
			t.Errorf("%s is %s with %d MiB, and nvidia-smi shows %s with %s MiB", d.UUID, d.Model, d.Memory>>20, l[1], l[2])
		}
	}
	if os.Getenv(devices.VisibleVariable) == "" && len(parents) != len(shown) {
		t.Errorf("%d GPUs are found, and nvidia-smi shows %d", len(parents), len(shown))
	}
}
