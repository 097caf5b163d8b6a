package link

import (
	"net"
	"os"
	"runtime"
	"syscall"
)

// asFileSender returns nil where the system cannot copy by itself, as when this process encrypts the bytes.
func asFileSender(conn net.Conn) fileSender {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &sendfile{raw: raw}
	s.step = s.move // one closure for all calls
	return s
}

// sendfile is used by the writer alone. TCPConn.ReadFrom would use the file's own position, which several connections
// that send sections of one file cannot share.
type sendfile struct {
	raw    syscall.RawConn
	step   func(fd uintptr) bool
	from   int
	offset int64
	left   int
	err    error
}

func (s *sendfile) send(file *os.File, offset int64, length int) (int, error) {
	s.from, s.offset, s.left, s.err = int(file.Fd()), offset, length, nil
	err := s.raw.Write(s.step)
	runtime.KeepAlive(file)
	if err == nil {
		err = s.err
	}
	return length - s.left, err
}

// move returns false to be called again when the connection takes more.
func (s *sendfile) move(fd uintptr) bool {
	for s.left > 0 {
		n, err := syscall.Sendfile(int(fd), s.from, &s.offset, s.left)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil || n <= 0:
			s.err = err
			return true
		}
		s.left -= n
	}
	return true
}

// yield offers the processor to the system's other threads. The runtime's own scheduler is not the problem: it has a
// thread for each processor.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
