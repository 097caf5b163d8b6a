package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates.
type Authority struct {
	CA string // file of its own certificate

	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64 // of the last certificate
}

// New makes an authority whose files are in dir. It is valid for a day.
func New(dir string) (*Authority, error) { return NewUntil(dir, time.Now().Add(24*time.Hour)) }

// NewUntil is New with the end of its own certificate.
func NewUntil(dir string, end time.Time) (*Authority, error) {
	a := &Authority{dir: dir, serial: 1}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "raysys test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.CA, a.key, err = a.sign("ca", a.cert); err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	return a, nil
}

// Issue writes a certificate with these URIs, and its key, to files of that name.
func (a *Authority) Issue(name string, begin, end time.Time, uris ...string) (cert, key string, err error) {
	c := &x509.Certificate{NotBefore: begin, NotAfter: end}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			return "", "", fmt.Errorf("issue certificate %s: %w", name, err)
		}
		c.URIs = append(c.URIs, u)
	}
	return a.issue(name, c)
}

// IssueLocal writes a certificate for a server at 127.0.0.1, as browsers want it, and its key.
func (a *Authority) IssueLocal(name string) (cert, key string, err error) {
	return a.issue(name, &x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

func (a *Authority) issue(name string, c *x509.Certificate) (cert, key string, err error) {
	a.serial++
	c.SerialNumber, c.Subject = big.NewInt(a.serial), pkix.Name{CommonName: name}
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, secret, err := a.sign(name, c)
	if err != nil {
		return "", "", fmt.Errorf("issue certificate %s: %w", name, err)
	}
	der, err := x509.MarshalECPrivateKey(secret)
	if err == nil {
		key, err = a.write(name+".key", "EC PRIVATE KEY", der)
	}
	return cert, key, err
}

// sign writes a certificate for a new key. The authority's own is signed by that key itself.
func (a *Authority) sign(name string, c *x509.Certificate) (file string, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return "", nil, err
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, signer)
	if err != nil {
		return "", nil, err
	}
	file, err = a.write(name+".crt", "CERTIFICATE", der)
	return file, key, err
}

func (a *Authority) write(name, kind string, der []byte) (string, error) {
	path := filepath.Join(a.dir, name)
	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
