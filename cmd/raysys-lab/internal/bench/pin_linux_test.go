package bench

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed reads a process's CPUs the way the system tells them, for one thread of it or all.
func allowed(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}

func TestPinned(t *testing.T) {
	list, err := cpus()
	if err != nil || len(list) == 0 || !slices.IsSorted(list) {
		t.Fatalf("CPUs %v, %v", list, err)
	}
	mine := allowed(t, os.Getpid())
	for _, cpu := range []int{list[0], list[len(list)-1]} {
		c, err := launchReady(t.Context(), small, cpu, childNothing)
		if err != nil {
			t.Fatal(err)
		}
		if got := allowed(t, c.pid()); got != strconv.Itoa(cpu) {
			t.Errorf("a child pinned to CPU %d may use %s", cpu, got)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
	if now := allowed(t, os.Getpid()); now != mine {
		t.Errorf("this process may use %s, and could use %s before", now, mine)
	}
	after, err := cpus()
	if err != nil || !slices.Equal(after, list) {
		t.Errorf("CPUs %v, %v after; %v before", after, err, list)
	}
	if _, err := launchOn(t.Context(), small, 1<<20, childNothing); err == nil {
		t.Error("a CPU that is not there takes a child")
	}
}

func TestLayouts(t *testing.T) {
	list, missing, err := layouts()
	if err != nil {
		t.Fatal(err)
	}
	have, _ := cpus()
	if list[0].name != "one_cpu" || list[0].asks != list[0].other {
		t.Errorf("first layout %+v", list[0])
	}
	if len(have) == 1 {
		if len(list) != 1 || missing == "" {
			t.Errorf("on one CPU: %+v, %q", list, missing)
		}
		return
	}
	if len(list) != 2 || list[1].name != "two_cpus" || list[1].asks == list[1].other || missing != "" {
		t.Errorf("layouts %+v, %q", list, missing)
	}
}
