//go:build !unix

package link

import (
	"io"
	"net"
)

// readerOf leaves all reading to net.Conn.
func readerOf(conn net.Conn) io.Reader { return conn }
