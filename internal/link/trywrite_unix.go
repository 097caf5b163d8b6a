//go:build unix

package link

import (
	"net"
	"syscall"
)

// asTryWriter returns nil where a write cannot be told not to wait; TLS is such a case, because it must keep what it
// has encrypted.
func asTryWriter(conn net.Conn) tryWriter {
	switch c := conn.(type) {
	case tryWriter:
		return c
	case *net.TCPConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return nil
		}
		w := &rawWriter{raw: raw}
		w.once = w.write // one closure for all calls
		return w
	}
	return nil
}

// rawWriter is used by one goroutine at a time: the one that has set Peer.writing.
type rawWriter struct {
	raw  syscall.RawConn
	once func(fd uintptr) bool
	b    []byte
	n    int
	err  error
}

// TryWrite implements tryWriter.
func (w *rawWriter) TryWrite(b []byte) (int, error) {
	w.b, w.n, w.err = b, 0, nil
	err := w.raw.Write(w.once)
	w.b = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// write always says that it is done: RawConn would wait for the socket otherwise.
func (w *rawWriter) write(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), w.b)
		switch err {
		case nil:
			w.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			w.err = err
		}
		return true
	}
}
