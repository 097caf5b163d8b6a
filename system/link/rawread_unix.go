//go:build unix

package link

import (
	"io"
	"net"
	"os"
	"syscall"
)

// asReader returns nil where the system's own read is not all there is to reading.
func asReader(conn net.Conn) *rawReader {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return &rawReader{raw: raw}
}

// rawReader reads in one call of RawConn for as long as there is something, and without telling the scheduler of a system
// call that cannot wait: together 2 in 100 of a small call.
type rawReader struct {
	raw syscall.RawConn
	in  *intake
	err error
}

// rawReads is after how many reads in a row that found something the connection's deadline is looked at.
const rawReads = 64

// readAll is Peer.read.
func (r *rawReader) readAll(in *intake) error {
	r.in = in
	some := r.some // one closure for all calls
	for !in.peer.over.Load() && r.err == nil {
		if err := r.raw.Read(some); err != nil {
			return brokenError(err)
		}
	}
	return r.err
}

// some reads until there is nothing more, which is when it returns false and RawConn waits.
func (r *rawReader) some(fd uintptr) bool {
	for range rawReads {
		n, err := readNow(fd, r.in.room())
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil:
			r.err = brokenError(os.NewSyscallError("read", err))
		case n == 0:
			r.err = brokenError(io.EOF)
		default:
			r.err = r.in.took(n)
		}
		if r.err != nil || r.in.peer.over.Load() {
			return true
		}
	}
	return true
}
