package hostmemory

import (
	"bufio"
	"os"
	"path"
	"strconv"
	"strings"
)

// readUnder is Read where the system's files are under root.
func readUnder(root string) Gauge {
	least := Gauge{Limit: machineMemory(root)}
	text, _ := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, limit := "/sys/fs/cgroup", "memory.max" // version 2, which has no controllers in its line
		of := Gauge{usage: "memory.current", spare: []string{"inactive_file", "active_file", "slab_reclaimable"}}
		if parts[1] != "" {
			if parts[1] != "memory" {
				continue
			}
			base, limit = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
			of = Gauge{usage: "memory.usage_in_bytes", spare: []string{"total_inactive_file", "total_active_file"}}
		}
		// Inside a container the path may not exist here; its limit is then at the top.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			at := path.Join(root, base, dir)
			text, _ := os.ReadFile(path.Join(at, limit))
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && n > 0 && n < least.Limit {
				least = Gauge{n, path.Join(at, of.usage), path.Join(at, "memory.stat"), of.spare}
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

func machineMemory(root string) int64 {
	f, err := os.Open(path.Join(root, "proc/meminfo"))
	if err != nil {
		return fallback
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return fallback
}
