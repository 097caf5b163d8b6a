package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
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

// TLS is the transport for hosts that do not trust the network between them. Its files may be replaced while it is used:
// Reload reads them again, and each handshake after Use has what they hold.
type TLS struct {
	certFile, keyFile, caFile string
	current                   atomic.Pointer[Credentials]
}

// LoadTLS makes a TLS 1.3 transport with certificates on both sides. The three files are PEM; the certificate names
// cluster and node in a URI (see Name), and peers without a certificate of that CA are refused. It fails when the CA
// does not verify the certificate now: others would refuse it one by one.
func LoadTLS(certFile, keyFile, caFile string) (*TLS, error) {
	t, err := loadTLS(certFile, keyFile, caFile)
	if err != nil {
		return nil, err
	}
	if err := t.verifies(t.current.Load()); err != nil {
		return nil, err
	}
	return t, nil
}

func loadTLS(certFile, keyFile, caFile string) (*TLS, error) {
	t := &TLS{certFile: certFile, keyFile: keyFile, caFile: caFile}
	c, err := readCredentials(certFile, keyFile, caFile)
	if err != nil {
		return nil, err
	}
	t.current.Store(c)
	return t, nil
}

func (t *TLS) verifies(c *Credentials) error {
	if err := c.verifyOwn(time.Now()); err != nil {
		return fmt.Errorf("load TLS certificate %s: peers would refuse it, CA %s does not verify it: %w: give the node a certificate that this CA signed and that is valid now", t.certFile, t.caFile, err)
	}
	return nil
}

// Reload reads the files again and returns what they hold, for Use; nil when that is in use. An error says why it cannot
// be used: a file is half written, the key is of another certificate, peers would refuse the certificate, or it has
// another name.
func (t *TLS) Reload() (*Credentials, error) {
	c, err := readCredentials(t.certFile, t.keyFile, t.caFile)
	if err != nil {
		return nil, err
	}
	current := t.current.Load()
	if c.same(current) {
		return nil, nil
	}
	name, err := NameOf(c.own)
	if err != nil {
		return nil, err // readCredentials has looked
	}
	if old, err := NameOf(current.own); err != nil || name.Cluster != old.Cluster || name.Node != old.Node {
		return nil, fmt.Errorf("load TLS certificate %s: it is of node %s in cluster %s, the one in use of node %s in cluster %s: give the node a certificate with its name, or restart it to change the name", t.certFile, name.Node, name.Cluster, old.Node, old.Cluster)
	}
	if err := t.verifies(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Use has each handshake from now on show and verify by c. Sessions go on; see Distrusts.
func (t *TLS) Use(c *Credentials) { t.current.Store(c) }

// Credentials are those in use.
func (t *TLS) Credentials() *Credentials { return t.current.Load() }

// Distrusts reports whether no CA in the file that is in use verifies the certificate that p proved its name with.
func (t *TLS) Distrusts(p *Peer) bool {
	chain := p.Chain()
	return len(chain) > 0 && t.current.Load().distrusts(chain)
}

// Ask connects to addr for the certificates that the node there shows now, its own first. It fails unless the CA that is
// in use verifies them and they have the node's name.
func (t *TLS) Ask(ctx context.Context, addr, cluster string, node raysys.NodeID) ([]*x509.Certificate, error) {
	conn, err := t.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := secure(ctx, conn); err != nil {
		return nil, err
	}
	return chainOf(conn), matches(leaf(conn), cluster, node)
}

// Listen implements Transport. The first reader does the handshake, which must not hold up Accept.
func (t *TLS) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load().asServer, nil },
	}), nil
}

// Dial implements Transport.
func (t *TLS) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(err)
	}
	return t.Secure(conn, true), nil
}

// Secure implements Transport.
func (t *TLS) Secure(conn net.Conn, dialed bool) net.Conn {
	c := t.current.Load()
	if dialed {
		return tls.Client(conn, c.asClient)
	}
	return tls.Server(conn, c.asServer)
}
