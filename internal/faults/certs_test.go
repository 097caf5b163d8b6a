package faults_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/system"
)

// authority signs the certificates of a cluster's nodes, into files.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// files are those of a node's certificate, which is good for a day.
func (a *authority) files(cluster, node string) system.TLSFiles {
	a.t.Helper()
	return a.filesUntil(cluster, node, time.Now().Add(24*time.Hour))
}

func (a *authority) filesUntil(cluster, node string, end time.Time) system.TLSFiles {
	a.t.Helper()
	name, err := url.Parse("raysys://" + cluster + "/" + node)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: node}, URIs: []*url.URL{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	file := fmt.Sprint(node, "-", c.SerialNumber)
	return system.TLSFiles{
		Cert: a.write(file+".pem", "CERTIFICATE", der), Key: a.write(file+".key", "EC PRIVATE KEY", secret), CA: filepath.Join(a.dir, "ca.pem"),
	}
}

func (a *authority) transport(f system.TLSFiles) link.Transport {
	a.t.Helper()
	t, err := link.LoadTLS(f.Cert, f.Key, f.CA)
	if err != nil {
		a.t.Fatal(err)
	}
	return t
}
