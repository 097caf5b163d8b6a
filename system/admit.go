package system

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/raysys/raysys/system/link"
)

// transport is how the node's connections are made.
type transport struct {
	link.Transport
	print string // fingerprint of the node's key, "" without TLS
}

func (c *Cluster) transport() (transport, error) {
	switch {
	case c.Network != nil:
		return transport{Transport: c.Network}, nil
	case c.TLS.set():
		t, err := link.LoadTLS(c.TLS.Cert, c.TLS.Key, c.TLS.CA)
		if err != nil {
			return transport{}, err
		}
		print, err := c.TLS.print()
		return transport{t, print}, err
	}
	return transport{Transport: link.TCP(link.TCPConfig{Insecure: c.Insecure})}, nil
}

// print is the fingerprint of the node's own key.
func (f TLSFiles) print() (string, error) {
	data, err := os.ReadFile(f.Cert)
	if err != nil {
		return "", fmt.Errorf("read the node's certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return "", fmt.Errorf("certificate %s: there is no PEM block in it", f.Cert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("certificate %s: %w", f.Cert, err)
	}
	return keyPrint(cert), nil
}

// keyPrint is the fingerprint of a certificate's key.
func keyPrint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// admit decides about a node whose handshake was right: it must be a member, by the store's word where the own view
// does not know it yet, and with the key that its record names (rule C18).
func (c *cluster) admit(ctx context.Context, who link.Identity, cert *x509.Certificate) error {
	select {
	case <-c.joined:
	case <-ctx.Done():
		return errors.New("this node has not joined yet")
	}
	if who.Node == c.self().node {
		return fmt.Errorf("node %s is this node's own name", who.Node)
	}
	n, err := c.member.Confirm(ctx, who.Node, who.Incarnation)
	if err != nil {
		return err
	}
	if cert != nil && n.KeyPrint != keyPrint(cert) {
		return fmt.Errorf("node %s joined with another key than that of the certificate it shows", who.Node)
	}
	c.mu.Lock()
	c.admitted[nodeKey{who.Node, who.Incarnation}] = n.Info
	c.mu.Unlock()
	return nil
}

func (c *cluster) rejected(remote string, who link.Identity, err error) {
	c.log.Info("connection rejected", zap.String("remote", remote), zap.String("claims", string(who.Node)), zap.Error(err))
}

func (c *cluster) panicked(p *link.Peer, kind link.Kind, value any, stack []byte) {
	c.log.Error("handler panicked", zap.String("peer", string(p.Identity().Node)), zap.Uint8("kind", uint8(kind)), zap.Any("panic", value), zap.ByteString("stack", stack))
}
