package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
)

// Transport makes and takes connections. An error of Dial matches ErrRefused or ErrUnreachable where one of them is
// known.
type Transport interface {
	Listen(ctx context.Context, addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
	// Secure makes of a connection that runs through a relay what Dial makes of a direct one, or with dialed unset what
	// the listener does; a plain transport returns conn as it is. It is part of the interface, so that a transport which
	// wraps another cannot leave relayed connections open by forgetting it.
	Secure(conn net.Conn, dialed bool) net.Conn
}

// TCPConfig is about plain TCP.
type TCPConfig struct {
	// Insecure allows addresses beyond loopback, where any machine on the way can read and change the frames.
	Insecure bool
}

// TCP returns the plain transport.
func TCP(cfg TCPConfig) Transport { return &tcp{cfg.Insecure} }

type tcp struct{ insecure bool }

// Listen implements Transport.
func (t *tcp) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// The address that the name resolved to decides, not the name.
	if err := t.allow("listen at", ln.Addr()); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// Dial implements Transport.
func (t *tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(err)
	}
	if err := t.allow("connect to", conn.RemoteAddr()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Secure implements Transport.
func (t *tcp) Secure(conn net.Conn, _ bool) net.Conn { return conn }

func (t *tcp) allow(verb string, addr net.Addr) error {
	a, ok := addr.(*net.TCPAddr)
	if t.insecure || ok && a.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s %s: it is no loopback address, and plain TCP can be read and changed by others there: give TLS files (cert, key, CA), or allow it with --insecure", verb, addr)
}

// chainOf returns the certificates that the other side showed, its own first; nil on a plain connection.
func chainOf(conn net.Conn) []*x509.Certificate {
	if c, ok := conn.(*tls.Conn); ok {
		return c.ConnectionState().PeerCertificates
	}
	return nil
}

// leaf returns the certificate of the other side; nil on a plain connection.
func leaf(conn net.Conn) *x509.Certificate {
	if chain := chainOf(conn); len(chain) > 0 {
		return chain[0]
	}
	return nil
}
