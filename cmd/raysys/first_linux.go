package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// asFirst runs `raysys node` in a child of this process where this is process 1, as in a container without an init: process 1
// becomes the parent of each process whose own parent ended, and has to wait for it, or it stays as a zombie. A supervisor that
// waited for all its children would take the ends of its program from os/exec. code is that of the child.
func asFirst(args []string) (code int, first bool) {
	if os.Getpid() != 1 || !slices.Contains(args[1:], "node") {
		return 0, false
	}
	self, err := os.Executable()
	if err != nil {
		return 0, false // the zombies stay
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	child, err := os.StartProcess(self, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // a terminal's signal comes once, from here
	})
	if err != nil {
		return 0, false
	}
	go func() { // ends with the process
		for s := range signals {
			_ = syscall.Kill(child.Pid, s.(syscall.Signal))
		}
	}()
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR:
		case err != nil: // there is no child any more
			return 1, true
		case pid == child.Pid && status.Signaled():
			return 128 + int(status.Signal()), true
		case pid == child.Pid:
			return status.ExitStatus(), true
		}
	}
}
