package system

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
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
		return transport{t, link.KeyFingerprint(t.Certificate())}, nil
	}
	return transport{Transport: link.TCP(link.TCPConfig{Insecure: c.Insecure})}, nil
}

// certified checks that the node's certificate lets it be who it is, since others would refuse it one by one. One without a
// name gets the certificate's; those that come and go take one aside of it, so that several can.
func (c *Cluster) certified(node raysys.NodeID) (raysys.NodeID, error) {
	t, err := link.LoadTLS(c.TLS.Cert, c.TLS.Key, c.TLS.CA)
	if err != nil {
		return node, err
	}
	name, err := link.NameOf(t.Certificate())
	if err != nil {
		return node, err // LoadTLS has looked
	}
	switch {
	case node != "":
	case c.Role.hosts():
		node = name.Node
	default:
		node = name.Node + link.Aside + raysys.NodeID(hex.EncodeToString(random(4)))
	}
	if name.Cluster != c.Name || !name.Proves(node) {
		return node, fmt.Errorf("certificate %s is of node %s in cluster %s, this is node %s in cluster %s: give the node the certificate's name (RAYSYS_NAME), or a certificate of its own", c.TLS.Cert, name.Node, name.Cluster, node, c.Name)
	}
	return node, allowed(t.Certificate(), c.Role)
}

// allowed: a certificate that names roles is good for those alone.
func allowed(cert *x509.Certificate, role Role) error {
	name, err := link.NameOf(cert)
	if err != nil {
		return err
	}
	if len(name.Roles) > 0 && !slices.Contains(name.Roles, string(role)) {
		return fmt.Errorf("the certificate of node %s is good for role %s, not for %s", name.Node, strings.Join(name.Roles, " and "), role)
	}
	return nil
}

// admit decides about a node whose handshake was right: it must be a member, by the store's word where the own view
// does not know it yet, and with the key that its record names (rule C18).
func (c *cluster) admit(ctx context.Context, who link.Identity, cert *x509.Certificate) error {
	select {
	case <-c.joined:
	case <-ctx.Done():
		return errors.New("this node has not joined yet")
	}
	if who.Node == c.self().Node {
		return fmt.Errorf("node %s is this node's own name", who.Node)
	}
	n, err := c.member.Confirm(ctx, who.Node, who.Incarnation)
	if err != nil {
		return err
	}
	if cert != nil {
		if err := allowed(cert, roleOf(n.Info)); err != nil {
			return err
		}
	}
	if cert != nil && n.KeyPrint != link.KeyFingerprint(cert) {
		return fmt.Errorf("node %s joined with another key than that of the certificate it shows", who.Node)
	}
	c.mu.Lock()
	c.admitted[nodeKey{Node: who.Node, Incarnation: who.Incarnation}] = n.Info
	c.mu.Unlock()
	return nil
}

func (c *cluster) rejected(remote string, who link.Identity, err error) {
	c.log.Info("connection rejected", zap.String("remote", remote), zap.String("claims", string(who.Node)), zap.Error(err))
}

func (c *cluster) panicked(p *link.Peer, kind link.Kind, value any, stack []byte) {
	c.log.Error("handler panicked", zap.String("peer", string(p.Identity().Node)), zap.Uint8("kind", uint8(kind)), zap.Any("panic", value), zap.ByteString("stack", stack))
}
