package system

import (
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/node"
)

// transport is how the node's connections are made.
func (c *ClusterConfig) transport() (node.Transport, error) {
	switch {
	case c.parts.Network != nil:
		return node.Transport{Transport: c.parts.Network}, nil
	case c.TLS.set():
		t, err := link.LoadTLS(c.TLS.Cert, c.TLS.Key, c.TLS.CA)
		if err != nil {
			return node.Transport{}, err
		}
		return node.Transport{Transport: t, Print: link.KeyFingerprint(t.Credentials().Certificate())}, nil
	}
	return node.Transport{Transport: link.TCP(link.TCPConfig{Insecure: c.Insecure})}, nil
}

// certified checks that the node's certificate allows its name, cluster and role: otherwise each other node would refuse it. A
// node without a name gets the certificate's name. A driver gets that name with a random suffix, so that several drivers can
// use one certificate.
func (c *ClusterConfig) certified(node raysys.NodeID) (raysys.NodeID, error) {
	t, err := link.LoadTLS(c.TLS.Cert, c.TLS.Key, c.TLS.CA)
	if err != nil {
		return node, err
	}
	name, err := link.NameOf(t.Credentials().Certificate())
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
	return node, allowed(t.Credentials().Certificate(), c.Role)
}

// allowed refuses a certificate that names roles, and not this one.
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
