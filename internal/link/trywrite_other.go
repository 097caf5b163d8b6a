//go:build !unix

package link

import "net"

// asTryWriter leaves all writing to the peer's writer.
func asTryWriter(conn net.Conn) tryWriter {
	w, _ := conn.(tryWriter)
	return w
}
