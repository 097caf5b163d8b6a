package link

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/raysys/raysys"
)

// Name is what a certificate proves: a URI among its subject alternative names, raysys://CLUSTER/NODE or
// raysys://CLUSTER/NODE?role=ROLE (rule C18). Roles repeat: ?role=worker&role=driver.
type Name struct {
	Cluster string
	Node    raysys.NodeID
	Roles   []string
}

func (n Name) String() string {
	return (&url.URL{Scheme: scheme, Host: n.Cluster, Path: "/" + string(n.Node), RawQuery: url.Values{"role": n.Roles}.Encode()}).String()
}

const scheme = "raysys"

// NameOf returns the name in a certificate, which must have exactly one.
func NameOf(cert *x509.Certificate) (Name, error) {
	if cert == nil {
		return Name{}, errors.New("there is no certificate")
	}
	var found []Name
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			found = append(found, Name{Cluster: u.Host, Node: raysys.NodeID(strings.TrimPrefix(u.Path, "/")), Roles: u.Query()["role"]})
		}
	}
	if len(found) != 1 || found[0].Cluster == "" || found[0].Node == "" {
		return Name{}, fmt.Errorf("the certificate of %q has %d names of the form %s://CLUSTER/NODE among its URIs, it needs one", cert.Subject.CommonName, len(found), scheme)
	}
	return found[0], nil
}

// KeyFingerprint is the SHA-256 of a certificate's public key, in hexadecimal: what stays when the certificate is
// renewed for the same key.
func KeyFingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Aside parts the name in a certificate from what its holder adds: a driver or an operator beside node a, with a's
// certificate, is a~1, a~2. The names of nodes themselves do not have it.
const Aside = "~"

// Proves reports whether the certificate's holder may be called node: by the name itself, or by one aside of it.
func (n Name) Proves(node raysys.NodeID) bool {
	rest, ok := strings.CutPrefix(string(node), string(n.Node))
	return ok && (rest == "" || strings.HasPrefix(rest, Aside))
}

// matches: a certificate of the CA is not enough, it must be that node's.
func matches(cert *x509.Certificate, cluster string, node raysys.NodeID) error {
	name, err := NameOf(cert)
	if err != nil {
		return reject(CodeIdentity, "%v", err)
	}
	if name.Cluster != cluster || !name.Proves(node) {
		return reject(CodeIdentity, "the certificate is of node %s in cluster %s, the handshake says node %s in cluster %s", name.Node, name.Cluster, node, cluster)
	}
	return nil
}
