//go:build unix

package subprocess

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// KillTree kills the process of cmd, its group, and its descendants, also those that have left the group or the session. It finds them by
// their parents: a process whose parent has ended is found by the group alone.
func KillTree(cmd *exec.Cmd) {
	// What is stopped starts no other process, and its number is not given to another one.
	if cmd.Process.Signal(syscall.SIGSTOP) != nil { // it has ended
		KillGroup(cmd)
		return
	}
	tree := []int{cmd.Process.Pid}
	for found := true; found; {
		found = false
		of := children()
		for i := 0; i < len(tree); i++ {
			for _, pid := range of(tree[i]) {
				if !slices.Contains(tree, pid) {
					tree, found = append(tree, pid), true
					_ = syscall.Kill(pid, syscall.SIGSTOP)
				}
			}
		}
	}
	for _, pid := range tree[1:] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	KillGroup(cmd)
	_ = cmd.Process.Kill()
}

// listed asks ps for the children of processes. Where there is no ps it knows of none.
func listed() func(pid int) []int {
	out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	of := map[int][]int{}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		if n, _ := fmt.Sscan(line, &pid, &parent); n == 2 {
			of[parent] = append(of[parent], pid)
		}
	}
	return func(pid int) []int { return of[pid] }
}
