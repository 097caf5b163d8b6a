package consultest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// endWithParent has the server killed when the test process is, which then closes nothing.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stopped reports whether SIGSTOP has reached a process, or the process is gone.
func stopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(b, []byte(") ")) // behind the program's name
	return len(after) > 0 && (after[0] == 'T' || after[0] == 'Z')
}
