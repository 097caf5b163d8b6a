package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// TLS is the transport for hosts that do not trust the network between them.
type TLS struct {
	own                *x509.Certificate
	asServer, asClient *tls.Config
}

// LoadTLS makes a TLS 1.3 transport with certificates on both sides. The three files are PEM; the certificate names
// cluster and node in a URI (see Name), and peers without a certificate of that CA are refused. It fails when the CA
// does not verify the certificate now: others would refuse it one by one.
func LoadTLS(certFile, keyFile, caFile string) (*TLS, error) {
	t, err := loadTLS(certFile, keyFile, caFile)
	if err != nil {
		return nil, err
	}
	if err := verifyOwn(t.asServer.Certificates[0], t.own, t.asServer.ClientCAs, time.Now()); err != nil {
		return nil, fmt.Errorf("load TLS certificate %s: peers would refuse it, CA %s does not verify it: %w: give the node a certificate that this CA signed and that is valid now", certFile, caFile, err)
	}
	return t, nil
}

func loadTLS(certFile, keyFile, caFile string) (*TLS, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate %s with key %s: %w", certFile, keyFile, err)
	}
	own, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate %s: %w", certFile, err)
	}
	if _, err := NameOf(own); err != nil {
		return nil, fmt.Errorf("load TLS certificate %s: %w", certFile, err)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load TLS CA %s: there is no certificate in it", caFile)
	}
	return &TLS{
		own: own,
		asServer: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
		},
		asClient: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
			// Nodes are known by the URI in their certificate, not by host name: the chain is verified here, and the handshake
			// compares the URI.
			InsecureSkipVerify: true,
			VerifyConnection:   func(s tls.ConnectionState) error { return verifyServer(s, roots) },
		},
	}, nil
}

// verifyOwn checks a node's own certificate as its peers will, both as a server's and as a client's: one that they
// refuse would make a member that no other can connect to.
func verifyOwn(pair tls.Certificate, own *x509.Certificate, roots *x509.CertPool, now time.Time) error {
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	switch {
	case now.After(own.NotAfter):
		return fmt.Errorf("it expired on %s", own.NotAfter.Format(time.RFC3339))
	case now.Before(own.NotBefore):
		return fmt.Errorf("it is valid from %s on, which is not yet", own.NotBefore.Format(time.RFC3339))
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		opts := x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now}
		if _, err := own.Verify(opts); err != nil {
			return err
		}
	}
	return nil
}

func verifyServer(s tls.ConnectionState, roots *x509.CertPool) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the peer has no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// Certificate is this node's own.
func (t *TLS) Certificate() *x509.Certificate { return t.own }

// Listen implements Transport. The first reader does the handshake, which must not hold up Accept.
func (t *TLS) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(ln, t.asServer), nil
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
	if dialed {
		return tls.Client(conn, t.asClient)
	}
	return tls.Server(conn, t.asServer)
}
