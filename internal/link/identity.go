package link

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
)

// Identity is what a node says of itself in the handshake.
type Identity struct {
	Cluster     string
	Node        raysys.NodeID
	Incarnation uint64 // which life of the node this is
	Address     string // where others reach it; empty when they cannot
	Role        string
	Version     string // of the program, for people
	Namespace   string
	Functions   []Function // in the order of its table: calls name a function by its place
}

// Function is one entry of a node's table. Differing fingerprints under one name mean that values of one side do not
// decode on the other (rule C4): what follows is for the user to say.
type Function struct {
	Kind        string
	Name        string
	Fingerprint uint64
}

// maxFunctions bounds a table.
const maxFunctions = 1 << 16

// check is about what the node's own program hands in.
func (id *Identity) check() error {
	switch {
	case id.Cluster == "":
		return errors.New("the identity has no cluster")
	case id.Node == "":
		return errors.New("the identity has no node")
	case len(id.Functions) > maxFunctions:
		return fmt.Errorf("the identity has %d functions, the limit is %d", len(id.Functions), maxFunctions)
	}
	for _, s := range []string{id.Cluster, string(id.Node), id.Address, id.Role, id.Version, id.Namespace} {
		if len(s) > maxText {
			return fmt.Errorf("a name in the identity has %d bytes, the limit is %d", len(s), maxText)
		}
	}
	for _, f := range id.Functions {
		if len(f.Kind) > maxText || len(f.Name) > maxText {
			return fmt.Errorf("the name of function %.32q has %d bytes, the limit is %d", f.Name, len(f.Kind)+len(f.Name), maxText)
		}
	}
	return nil
}

// Tags of an identity, in a handshake's body.
const (
	tagCluster     = 1
	tagNode        = 2
	tagIncarnation = 3
	tagAddress     = 4
	tagRole        = 5
	tagVersion     = 6
	tagNamespace   = 7
	tagFunction    = 8 // repeated, with fields of its own:

	tagFunctionKind        = 1
	tagFunctionName        = 2
	tagFunctionFingerprint = 3
)

func (id *Identity) fields() []field {
	return []field{
		{tagCluster, &id.Cluster},
		{tagNode, (*string)(&id.Node)},
		{tagIncarnation, &id.Incarnation},
		{tagAddress, &id.Address},
		{tagRole, &id.Role},
		{tagVersion, &id.Version},
		{tagNamespace, &id.Namespace},
		{tagFunction, &id.Functions},
	}
}

func (f *Function) fields() []field {
	return []field{
		{tagFunctionKind, &f.Kind},
		{tagFunctionName, &f.Name},
		{tagFunctionFingerprint, (*fixed64)(&f.Fingerprint)},
	}
}

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
