//go:build unix

package link

import (
	"io"
	"net"
	"os"
	"syscall"
)

// readerOf reads from a connection; from a TCP connection without telling the scheduler of a system call that does not
// wait, which is 2 in 100 of a small call.
func readerOf(conn net.Conn) io.Reader {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return conn
	}
	r := &rawReader{raw: raw}
	r.once = r.some // one closure for all calls
	return r
}

// rawReader is used by one goroutine at a time.
type rawReader struct {
	raw  syscall.RawConn
	once func(fd uintptr) bool
	b    []byte
	n    int
	err  error
}

// Read implements io.Reader; b is not empty. The bytes are handled after it: RawConn holds the connection, and a
// handler that closed it would wait for itself.
func (r *rawReader) Read(b []byte) (int, error) {
	r.b, r.n, r.err = b, 0, nil
	err := r.raw.Read(r.once)
	r.b = nil
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, os.NewSyscallError("read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// some returns false when there is nothing yet: then RawConn waits.
func (r *rawReader) some(fd uintptr) bool {
	for {
		n, err := readNow(fd, r.b)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		r.n, r.err = n, err
		return true
	}
}
