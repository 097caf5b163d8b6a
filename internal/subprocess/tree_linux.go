package subprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// children returns what tells the children of a process: of each of its threads.
func children() func(pid int) []int {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return listed() // the kernel was built without it
	}
	return func(pid int) (pids []int) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
		for _, f := range files {
			b, _ := os.ReadFile(f) // a thread that has ended has none
			for _, s := range strings.Fields(string(b)) {
				if child, err := strconv.Atoi(s); err == nil {
					pids = append(pids, child)
				}
			}
		}
		return pids
	}
}
