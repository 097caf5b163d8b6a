package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/system"
)

// certFlags are what the commands of certificates go by.
type certFlags struct {
	cluster, authority, dir string
	days                    int
	roles                   []string
}

func certCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Make and show the certificates of a cluster",
		Long: `Make an authority, and with it certificates for nodes, drivers, operators and the page.
Each has a key of its own, for its user's eyes alone. No file that is there is written to.
The authority's key, ca.key, belongs on no node.`,
		Example: "  raysys cert ca\n  raysys cert node n1\n  raysys cert node ops --role driver\n" +
			"  raysys cert page 10.0.0.11 n1.example.com\n  raysys cert show n1.crt",
		Args: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("%s takes what to do: there are ca, node, page, show", cmd.CommandPath())
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	show := &cobra.Command{
		Use: "show FILE", Short: "Show what the certificates in a file are for, and until when",
		Args: oneArgument("a file with certificates"), RunE: showCertificates,
	}
	const caShort = "Make the authority that signs all certificates of a cluster: ca.crt and ca.key"
	const nodeShort = "Make a certificate for a node, or for drivers and operators: NAME.crt and NAME.key"
	const pageShort = "Make a certificate for --http of a node, as browsers want it: page-HOST.crt and page-HOST.key"
	cmd.AddCommand(show, certVerb("ca", caShort, cli.NoArgs, 3650, makeAuthority),
		certVerb("node NAME", nodeShort, oneArgument("the name of a node"), 365, issueNode),
		certVerb("page HOST...", pageShort, nil, 365, issuePage))
	return cmd
}

// certVerb is a command that makes a certificate of its arguments: run returns the file.
func certVerb(
	use, short string, args cobra.PositionalArgs, days int, run func(*certFlags, []string) (string, error),
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	f := &certFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", ".", "folder for the new files")
	flags.IntVar(&f.days, "days", days, "how many days it is good for")
	if cmd.Name() != "page" {
		flags.StringVar(&f.cluster, "cluster", "default", "name of the cluster")
	}
	if cmd.Name() != "ca" {
		flags.StringVar(&f.authority, "authority", ".", "folder with ca.crt and ca.key")
	}
	if cmd.Name() == "node" {
		flags.StringSliceVar(&f.roles, "role", nil, "what alone it is good for: worker, driver, both (default: all)")
		cli.NoVariable(flags, "role") // RAYSYS_ROLE is that of a node
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.days <= 0 || f.days > maxDays {
			return cli.Usagef("--days %d: give a number from 1 to %d", f.days, maxDays)
		}
		path, err := run(f, args)
		if err != nil {
			return err
		}
		return showCertificates(cmd, []string{path})
	}
	return cmd
}

// maxDays is a hundred years.
const maxDays = 36500

// draft is a certificate that waits for its key and signature.
func (f *certFlags) draft(subject string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: subject[:min(len(subject), 64)]},   // X.509 has no longer one
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, f.days), // clocks differ
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
}

func makeAuthority(f *certFlags, _ []string) (string, error) {
	if err := checkName("--cluster", f.cluster); err != nil {
		return "", err
	}
	c := f.draft("raysys " + f.cluster)
	c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	return f.write("ca", c, nil)
}

func issueNode(f *certFlags, args []string) (string, error) {
	if err := errors.Join(checkName("NAME", args[0]), checkName("--cluster", f.cluster)); err != nil {
		return "", err
	}
	for _, role := range f.roles {
		if !slices.Contains([]system.Role{system.Worker, system.Driver, system.Both}, system.Role(role)) {
			return "", cli.Usagef("--role %q: there are worker, driver, both", role)
		}
	}
	uri, err := url.Parse(link.Name{Cluster: f.cluster, Node: raysys.NodeID(args[0]), Roles: f.roles}.String())
	if err != nil {
		return "", err // never, of such names
	}
	c := f.draft(args[0])
	c.URIs, c.ExtKeyUsage = []*url.URL{uri}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return f.issue(args[0], c)
}

func issuePage(f *certFlags, args []string) (string, error) {
	if len(args) == 0 {
		return "", cli.Usagef("raysys cert page takes names or addresses of the host, as readers write them")
	}
	c := f.draft(args[0])
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range args {
		switch ip := net.ParseIP(host); {
		case ip != nil:
			c.IPAddresses = append(c.IPAddresses, ip)
		case hostName.MatchString(host) && len(host) <= 253:
			c.DNSNames = append(c.DNSNames, host)
		default:
			const give = "HOST %q: give a name or an address, without *, without a port and without http://"
			return "", cli.Usagef(give, host)
		}
	}
	return f.issue("page-"+strings.ReplaceAll(args[0], ":", "-"), c)
}

// hostName fits what browsers look for in a certificate, not "a..b" or "b.". Its last label has a letter: 10.0.0.256 is
// no name.
var hostName = regexp.MustCompile(`(?i)^(\w([\w-]{0,61}\w)?\.)*\d*[a-z_]([\w-]{0,61}\w)?$`)

// issue has the authority sign.
func (f *certFlags) issue(name string, c *x509.Certificate) (string, error) {
	file := filepath.Join(f.authority, "ca.crt")
	ca, err := tls.LoadX509KeyPair(file, filepath.Join(f.authority, "ca.key"))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the authority: %w: name its folder with --authority, or run raysys cert ca", err)
	case c.NotAfter.After(ca.Leaf.NotAfter):
		most := max(0, int(time.Until(ca.Leaf.NotAfter).Hours()/24))
		return "", cli.Usagef("--days %d: the authority itself is good for %d days more", f.days, most)
	}
	return f.write(name, c, &ca)
}

// write makes a key, signs, and writes both files. Without an authority the key signs its own certificate.
func (f *certFlags) write(name string, c *x509.Certificate, ca *tls.Certificate) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	parent, signer, path := c, any(key), filepath.Join(f.dir, name)
	if ca != nil {
		parent, signer = ca.Leaf, ca.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return "", fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	made, err := x509.ParseCertificate(der)
	if err == nil && ca != nil {
		err = made.CheckSignatureFrom(ca.Leaf)
	}
	if err != nil {
		const may = "the authority may not sign: it is the certificate of %q: %w"
		return "", fmt.Errorf(may, parent.Subject.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("write the key of %s: %w", name, err)
	}
	if err := writeNew(path+".key", 0o600, "PRIVATE KEY", secret); err != nil {
		return "", err
	}
	if err := writeNew(path+".crt", 0o644, "CERTIFICATE", der); err != nil {
		return "", errors.Join(err, os.Remove(path+".key")) // of no use without its certificate
	}
	return path + ".crt", nil
}

// writeNew writes a file that is not there, and follows no link.
func writeNew(path string, mode fs.FileMode, kind string, der []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: nothing was changed: name another folder with --dir, and move what is new", err)
	case err != nil:
		return err
	}
	if err = errors.Join(pem.Encode(file, &pem.Block{Type: kind, Bytes: der}), file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func showCertificates(cmd *cobra.Command, args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	shown := 0
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue // a key is not for showing
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s, certificate %d: %w", args[0], shown+1, err)
		}
		if shown++; shown == 1 {
			fmt.Fprintln(out, "FILE\tFOR\tSIGNED BY\tUNTIL\tLEFT")
		}
		what := strings.Join(c.DNSNames, " ")
		for _, ip := range c.IPAddresses {
			what += " " + ip.String()
		}
		if name, err := link.NameOf(c); err == nil {
			what = name.String()
		} else if c.IsCA {
			what = "authority " + c.Subject.CommonName
		}
		left := "expired"
		if time.Now().Before(c.NotAfter) {
			left = fmt.Sprintf("%.0f days", time.Until(c.NotAfter).Hours()/24)
		}
		what, by := printable.Escape(strings.TrimSpace(what)), printable.Escape(c.Issuer.CommonName)
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", args[0], what, by, c.NotAfter.UTC().Format(time.DateTime), left)
	}
	if shown == 0 {
		return fmt.Errorf("%s has no certificate: give a PEM file with lines BEGIN CERTIFICATE", args[0])
	}
	return out.Flush()
}
