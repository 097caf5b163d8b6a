package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// endWithParent has a process killed when the test's is, also one that is stopped and would not see its pipe end.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stopped reports whether SIGSTOP has reached a process: the signal's sender does not wait for that. A process that is gone
// will not run either.
func stopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(b, []byte(") ")) // behind the program's name
	return len(after) > 0 && (after[0] == 'T' || after[0] == 'Z')
}
