package countload

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is what was used until a moment.
type usage struct {
	cpu     float64 // seconds of processes, with children that have ended and were waited for
	written int64   // bytes to the machine's disks
}

const (
	ticks  = 100 // a second of /proc/PID/stat: USER_HZ wherever Go runs on Linux
	sector = 512 // bytes, of /sys/block/NAME/stat whatever the disk has
)

// CheckUsage says why it cannot be read here what processes use; nil where it can.
func CheckUsage() error {
	if _, _, err := readProcess(os.Getpid()); err != nil {
		return fmt.Errorf("what a call costs is read from Linux's /proc/PID/stat: %w", err)
	}
	return nil
}

// sumUsage adds up what this process and all below it have used. What they wrote is read at the disks, and so has what
// others wrote: of a process Linux counts a whole folio, up to 1 MiB, where a write changes some bytes of it.
func sumUsage() (u usage, err error) {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return u, err
	}
	children, cpu := map[int][]int{}, map[int]float64{}
	for _, f := range folders {
		pid, _ := strconv.Atoi(f.Name())
		if parent, seconds, err := readProcess(pid); err == nil { // else it is no process, or has just ended
			children[parent], cpu[pid] = append(children[parent], pid), seconds
		}
	}
	for list := []int{os.Getpid()}; len(list) > 0; list = append(list[1:], children[list[0]]...) {
		u.cpu += cpu[list[0]]
	}
	disks, err := filepath.Glob("/sys/block/*/device") // hardware has that; what is made of other disks has not
	for _, d := range disks {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(d), "stat"))
		if err != nil {
			continue // it was taken away
		}
		n, err := parseDisk(string(text))
		if err != nil {
			return u, err
		}
		u.written += n
	}
	return u, err
}

// readProcess returns a process's parent, and its seconds.
func readProcess(pid int) (parent int, seconds float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(string(text))
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

// parseDisk returns the bytes written of /sys/block/NAME/stat.
func parseDisk(text string) (int64, error) {
	f := strings.Fields(text)
	if len(f) < 7 {
		return 0, fmt.Errorf("/sys/block/NAME/stat is short: %q", text)
	}
	n, err := strconv.ParseInt(f[6], 10, 64)
	return n * sector, err
}
