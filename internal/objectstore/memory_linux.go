package objectstore

import (
	"bufio"
	"os"
	"path"
	"strconv"
	"strings"
)

// memory returns the bytes this process may use: the smallest limit of its cgroups, or the machine's memory.
func memory() int64 { return memoryUnder("/") }

// memoryUnder is memory where the system's files are under root.
func memoryUnder(root string) int64 {
	least := machineMemory(root)
	lower := func(file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	text, _ := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, file := "/sys/fs/cgroup", "memory.max" // version 2, which has no controllers in its line
		if parts[1] != "" {
			if parts[1] != "memory" {
				continue
			}
			base, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// Inside a container the path may not exist here; its limit is then at the top.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			lower(path.Join(root, base, dir, file))
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
		return fallbackMemory
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return fallbackMemory
}

// fallbackMemory is assumed where the system does not report its memory.
const fallbackMemory = 4 << 30
