package hostmemory

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLimit: the memory is the least limit of the process's cgroups, of version 1 or 2, and at most the machine's.
func TestLimit(t *testing.T) {
	const (
		host    = "MemTotal:        1024 kB\nMemFree:          16 kB\n"
		machine = 1 << 20
	)
	v2, v1 := "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no cgroup", map[string]string{"proc/meminfo": host}, machine},
		{"nothing to read", nil, fallback},
		{"no total", map[string]string{"proc/meminfo": "MemFree: 16 kB\n"}, fallback},
		{"version 2", map[string]string{"proc/meminfo": host, "proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "5000\n"}, 5000},
		{"version 2 without a limit", map[string]string{"proc/meminfo": host, "proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "max\n"}, machine},
		{"a limit above the machine's", map[string]string{"proc/meminfo": host, "proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "9000000000\n"}, machine},
		{"a nested cgroup", map[string]string{
			"proc/meminfo": host, "proc/self/cgroup": "0::/slice/pod/box\n",
			v2 + "slice/memory.max": "7000\n", v2 + "slice/pod/memory.max": "6000\n", v2 + "slice/pod/box/memory.max": "max\n", v2 + "other/memory.max": "1\n",
		}, 6000},
		{"a path of the host, in a container", map[string]string{"proc/meminfo": host, "proc/self/cgroup": "0::/../pod\n", v2 + "memory.max": "4000\n"}, 4000},
		{"version 1", map[string]string{
			"proc/meminfo": host, "proc/self/cgroup": "11:cpu,cpuacct:/cpu\n4:memory:/docker/abc\n0::/ignored\n",
			v1 + "docker/abc/memory.limit_in_bytes": "3000\n", v1 + "cpu/memory.limit_in_bytes": "1\n", v1 + "memory.limit_in_bytes": "9223372036854771712\n",
		}, 3000},
		{"version 1, in a container", map[string]string{
			"proc/meminfo": host, "proc/self/cgroup": "4:memory:/docker/abc\n", v1 + "memory.limit_in_bytes": "2000\n",
		}, 2000},
		{"version 1 without a limit", map[string]string{
			"proc/meminfo": host, "proc/self/cgroup": "4:memory:/\n", v1 + "memory.limit_in_bytes": "9223372036854771712\n",
		}, machine},
		{"no numbers", map[string]string{"proc/meminfo": host, "proc/self/cgroup": "nonsense\n0::/pod\n", v2 + "pod/memory.max": "-5\n", v2 + "memory.max": "0\n"}, machine},
	} {
		root := t.TempDir()
		writeAll(t, root, c.files)
		if got := readUnder(root).Limit; got != c.want {
			t.Errorf("%s: got %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// TestUsed: what is used is what the cgroup with the limit has, less what the system gives up without loss.
func TestUsed(t *testing.T) {
	v2, v1 := "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
	const host = "MemTotal: 1024 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		at    int64 // a limit of the operator's
		want  int64 // 0 for that of the process
	}{
		{"version 2, the parent's limit", map[string]string{
			"proc/self/cgroup": "0::/pod/box\n", v2 + "pod/memory.max": "5000\n", v2 + "pod/memory.current": "3000\n", v2 + "pod/box/memory.current": "1\n",
			v2 + "pod/memory.stat": "anon 1\ninactive_file 800\nactive_file 600\nslab_reclaimable 50\nslab_unreclaimable 9\n",
		}, 0, 1550},
		{"version 1", map[string]string{
			"proc/self/cgroup": "4:memory:/d\n", v1 + "d/memory.limit_in_bytes": "5000\n", v1 + "d/memory.usage_in_bytes": "3000\n",
			v1 + "d/memory.stat": "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 300\n",
		}, 0, 2200},
		{"no statistics", map[string]string{"proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "5000\n", v2 + "pod/memory.current": "3000\n"}, 0, 3000},
		{"more given up than had", map[string]string{
			"proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "5000\n", v2 + "pod/memory.current": "300\n", v2 + "pod/memory.stat": "inactive_file 800\n",
		}, 0, -1},
		{"a lower limit", map[string]string{"proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "5000\n", v2 + "pod/memory.current": "3000\n"}, 4000, 0},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "max\n", v2 + "pod/memory.current": "3000\n"}, 0, 0},
		{"an unreadable file", map[string]string{"proc/self/cgroup": "0::/pod\n", v2 + "pod/memory.max": "5000\n"}, 0, 0},
	} {
		root := t.TempDir()
		c.files["proc/meminfo"] = host
		writeAll(t, root, c.files)
		got := readUnder(root).At(c.at).Used()
		switch {
		case c.want == 0 && got < 1<<20: // a Go program has more
			t.Errorf("%s: got %d bytes, and the process has more", c.name, got)
		case c.want == -1 && got != 0, c.want > 0 && got != c.want:
			t.Errorf("%s: got %d bytes, want %d", c.name, got, max(c.want, 0))
		}
	}
}

func writeAll(t *testing.T, root string, files map[string]string) {
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
