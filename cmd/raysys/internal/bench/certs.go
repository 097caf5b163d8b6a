package bench

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
	"time"

	"github.com/raysys/raysys/system"
)

// certified are the files that a node finds in a directory of makeCertificates.
func certified(dir, node string) system.TLSFiles {
	return system.TLSFiles{
		Cert: filepath.Join(dir, node+".crt"), Key: filepath.Join(dir, node+".key"), CA: filepath.Join(dir, "ca.crt"),
	}
}

// makeCertificates makes an authority, and certificates of it for nodes of a cluster. They are good for a day.
func makeCertificates(dir, cluster string, nodes []string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "raysys bench"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err == nil {
		err = writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der)
	}
	for i, node := range nodes {
		if err != nil {
			break
		}
		err = makeCertificate(certified(dir, node), int64(i+2), &url.URL{Scheme: "raysys", Host: cluster, Path: "/" + node}, ca, caKey)
	}
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	return nil
}

func makeCertificate(files system.TLSFiles, serial int64, uri *url.URL, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: uri.Path}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{uri},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	if err := writePEM(files.Cert, "CERTIFICATE", der); err != nil {
		return err
	}
	if der, err = x509.MarshalECPrivateKey(key); err != nil {
		return err
	}
	return writePEM(files.Key, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
