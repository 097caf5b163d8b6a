package countload

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// usage is what processes have used. Children that have ended and were waited for count too.
type usage struct {
	cpu     float64 // seconds
	written int64   // bytes to files
}

// ticks is a second of /proc/PID/stat: USER_HZ is 100 wherever Go runs on Linux.
const ticks = 100

// CheckUsage says why it cannot be read here what processes use; nil where it can.
func CheckUsage() error {
	if _, _, err := readUsage(os.Getpid()); err != nil {
		return fmt.Errorf("what a call costs is read from Linux's /proc/PID/stat and io: %w", err)
	}
	return nil
}

// sumUsage adds up what this process and all below it have used.
func sumUsage() (usage, error) {
	_, all, err := readUsage(os.Getpid())
	if err != nil {
		return all, err
	}
	folders, err := os.ReadDir("/proc")
	children, used := map[int][]int{}, map[int]usage{}
	for _, f := range folders {
		pid, _ := strconv.Atoi(f.Name())
		if parent, u, err := readUsage(pid); err == nil { // else it is no process, has just ended, or is another user's
			children[parent], used[pid] = append(children[parent], pid), u
		}
	}
	for list := children[os.Getpid()]; len(list) > 0; list = append(list[1:], children[list[0]]...) {
		all.cpu, all.written = all.cpu+used[list[0]].cpu, all.written+used[list[0]].written
	}
	return all, err
}

// readUsage returns a process's parent, and what the process has used.
func readUsage(pid int) (parent int, u usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, u, err
	}
	if parent, u.cpu, err = parseStat(string(text)); err != nil {
		return 0, u, err
	}
	if text, err = os.ReadFile(fmt.Sprintf("/proc/%d/io", pid)); err == nil {
		u.written, err = parseIO(string(text))
	}
	return parent, u, err
}

// parseStat returns a process's parent and its seconds, in user and system mode, with those of the children that were
// waited for. The second field, the name in parentheses, may hold spaces and parentheses.
func parseStat(text string) (parent int, seconds float64, err error) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 15 {
		return 0, 0, fmt.Errorf("/proc/PID/stat is short: %q", text)
	}
	if parent, err = strconv.Atoi(f[1]); err != nil {
		return 0, 0, err
	}
	for _, field := range f[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		seconds += float64(n) / ticks
	}
	return parent, seconds, nil
}

// parseIO returns write_bytes of /proc/PID/io: bytes that go to the disks.
func parseIO(text string) (int64, error) {
	for l := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(l, "write_bytes: "); ok {
			return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/PID/io has no write_bytes: %q", text)
}
