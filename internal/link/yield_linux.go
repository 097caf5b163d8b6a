package link

import "syscall"

// yield offers the processor to the system's other threads. The runtime's own scheduler is not the problem: it has a
// thread for each processor.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
