package link

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Credentials are what the three files of a TLS held when they were read.
type Credentials struct {
	files              [3][]byte // certificate, key, CA
	own                *x509.Certificate
	between            *x509.CertPool // the certificates behind the node's own
	roots              *x509.CertPool
	asServer, asClient *tls.Config
}

// Certificate is the node's own.
func (c *Credentials) Certificate() *x509.Certificate { return c.own }

// Ends are when the node's certificate expires, and the certificate in the CA file that verifies it; of several, the one
// that is valid for longest.
func (c *Credentials) Ends() (own, ca time.Time) {
	opts := x509.VerifyOptions{Roots: c.roots, Intermediates: c.between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	chains, err := c.own.Verify(opts)
	if err != nil { // the certificate or its CA has expired since it was loaded
		opts.CurrentTime = c.own.NotBefore
		chains, _ = c.own.Verify(opts)
	}
	for _, chain := range chains {
		if end := chain[len(chain)-1].NotAfter; end.After(ca) {
			ca = end
		}
	}
	return c.own.NotAfter, ca
}

// readCredentials reads the files, and makes of them what handshakes need. It does not verify the certificate.
func readCredentials(certFile, keyFile, caFile string) (*Credentials, error) {
	c := &Credentials{}
	for i, file := range []string{certFile, keyFile, caFile} {
		var err error
		if c.files[i], err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("load TLS file: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(c.files[0], c.files[1])
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate %s with key %s: %w", certFile, keyFile, err)
	}
	c.own = pair.Leaf
	if _, err := NameOf(c.own); err != nil {
		return nil, fmt.Errorf("load TLS certificate %s: %w", certFile, err)
	}
	c.between = x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if between, err := x509.ParseCertificate(der); err == nil {
			c.between.AddCert(between)
		}
	}
	// Half of a file would end the sessions of the nodes whose CA is in the other half.
	const begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
	if bytes.Count(c.files[2], []byte(begin)) != bytes.Count(c.files[2], []byte(end)) {
		return nil, fmt.Errorf("load TLS CA %s: its last certificate is cut off: write the file whole", caFile)
	}
	c.roots = x509.NewCertPool()
	if !c.roots.AppendCertsFromPEM(c.files[2]) {
		return nil, fmt.Errorf("load TLS CA %s: there is no certificate in it", caFile)
	}
	c.asServer = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.roots,
	}
	c.asClient = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		// Nodes are known by the URI in their certificate, not by host name: the chain is verified here, and the handshake
		// compares the URI.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return c.verifyServer(s.PeerCertificates, time.Now()) },
	}
	return c, nil
}

// verifyOwn checks the node's own certificate as its peers will, both as a server's and as a client's: one that they
// refuse would make a member that no other can connect to.
func (c *Credentials) verifyOwn(now time.Time) error {
	switch {
	case now.After(c.own.NotAfter):
		return fmt.Errorf("it expired on %s", c.own.NotAfter.Format(time.RFC3339))
	case now.Before(c.own.NotBefore):
		return fmt.Errorf("it is valid from %s on, which is not yet", c.own.NotBefore.Format(time.RFC3339))
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		opts := x509.VerifyOptions{Roots: c.roots, Intermediates: c.between, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now}
		if _, err := c.own.Verify(opts); err != nil {
			return err
		}
	}
	return nil
}

// verifyServer checks a peer's certificate, and those that it sent with it, at a time.
func (c *Credentials) verifyServer(chain []*x509.Certificate, at time.Time) error {
	if len(chain) == 0 {
		return errors.New("the peer has no certificate")
	}
	between := x509.NewCertPool()
	for _, b := range chain[1:] {
		between.AddCert(b)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: c.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, CurrentTime: at,
	})
	return err
}

// distrusts reports whether no CA of the file verifies a certificate that a session began with. A session outlives its
// certificate's last day, so an expired one is looked at as on that day.
func (c *Credentials) distrusts(chain []*x509.Certificate) bool {
	at := time.Now()
	if end := chain[0].NotAfter; at.After(end) {
		at = end
	}
	var unknown x509.UnknownAuthorityError
	return errors.As(c.verifyServer(chain, at), &unknown)
}

func (c *Credentials) same(o *Credentials) bool {
	return slices.EqualFunc(c.files[:], o.files[:], bytes.Equal)
}
