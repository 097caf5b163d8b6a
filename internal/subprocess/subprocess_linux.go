package subprocess

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// EndWithParent has the kernel kill the process of cmd, which has not been started, when the thread ends that starts it.
// A stopped process, too, which would not see that its input has ended. Start does this by itself.
func EndWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// Stopped reports whether SIGSTOP has reached a process, which the sender of the signal does not wait for. A process that
// is gone will not run either.
func Stopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(b, []byte(") ")) // behind the program's name
	return len(after) > 0 && (after[0] == 'T' || after[0] == 'Z')
}
