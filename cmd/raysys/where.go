package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/doctor"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
)

// cluster is how commands reach a cluster. Tests put their own in place.
type cluster struct {
	// connect opens what status, memory and drain ask.
	connect func(ctx context.Context, at client.Where) (client.Cluster, error)
	// examine makes the doctor's tools, and what puts them away.
	examine func(at client.Where) (*doctor.Doctor, func() error, error)
	// reporter makes what tells the cluster that a worker of this host died, and is closed if it can be. Nil: its lease
	// runs out.
	reporter func(at client.Where, node raysys.NodeID) (supervise.Reporter, error)
}

// defaultConsul is where Consul's own agent listens.
const defaultConsul = "127.0.0.1:8500"

// whereFlags are the flags of all commands that speak to a cluster.
func whereFlags(flags *pflag.FlagSet) *client.Where {
	at := &client.Where{}
	consul, source := defaultConsul, ""
	if v := os.Getenv("CONSUL_HTTP_ADDR"); v != "" {
		consul, source = v, "CONSUL_HTTP_ADDR"
	}
	flags.StringVar(&at.Consul, "consul", consul, "address of a Consul agent, HOST:PORT or URL, several with commas between; token and TLS come from Consul's own variables")
	flags.Lookup("consul").DefValue = cli.Redact(consul) // for --help
	if source != "" {
		cli.DefaultFrom(flags, "consul", source)
	}
	flags.StringVar(&at.Cluster, "cluster", "default", "name of the cluster")
	flags.StringVar(&at.Cert, "tls-cert", "", "file with the certificate of this node or operator")
	flags.StringVar(&at.Key, "tls-key", "", "file with its key")
	flags.StringVar(&at.CA, "tls-ca", "", "file with the certificates that sign the others'")
	flags.BoolVar(&at.Insecure, "insecure", false, "speak plain TCP beyond this host: any machine on the way can read and change it, and call every function")
	return at
}

// urlFlag is for commands that read alone.
func urlFlag(flags *pflag.FlagSet, at *client.Where) {
	flags.StringVar(&at.URL, "url", "", "ask the page of a node at this URL, in place of Consul and the nodes; its token is in the file of RAYSYS_HTTP_TOKEN_FILE, its authority in --tls-ca")
	at.Token = os.Getenv("RAYSYS_HTTP_TOKEN_FILE")
}

func checkWhere(at *client.Where) error {
	if at.URL != "" {
		return nil // nothing else counts
	}
	if err := checkName("--cluster", at.Cluster); err != nil {
		return err
	}
	if err := checkConsul(at.Consul); err != nil {
		return err
	}
	files := []struct{ flag, path string }{{"--tls-cert", at.Cert}, {"--tls-key", at.Key}, {"--tls-ca", at.CA}}
	var missing []string
	for _, f := range files {
		if f.path == "" {
			missing = append(missing, f.flag)
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			return cli.Usagef("%s: %w", f.flag, err)
		}
	}
	if len(missing) > 0 && len(missing) < len(files) {
		return cli.Usagef("TLS needs all three files: give %s too", strings.Join(missing, " and "))
	}
	return nil
}

// maxName keeps keys in Consul short.
const maxName = 128

// checkName accepts what can stand in a Consul key and in a certificate's URI as it is.
func checkName(flag, name string) error {
	if name == "" {
		return cli.Usagef("%s is empty: give a name", flag)
	}
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !ok(r) }); i >= 0 || len(name) > maxName {
		return cli.Usagef("%s %q: give at most %d letters, digits, '-', '_' and '.'", flag, name, maxName)
	}
	return nil
}

func checkConsul(address string) error {
	for _, a := range strings.Split(address, ",") {
		a = strings.TrimSpace(a)
		if !strings.Contains(a, "://") && !strings.Contains(a, "@") {
			if err := checkAddress("--consul", a, false); err != nil {
				return err
			}
			continue
		}
		if u, err := url.Parse(a); err != nil || u.Host == "" || u.User != nil {
			return cli.Usagef("--consul: give HOST:PORT or a URL, without a password") // which is why it is not quoted
		}
	}
	return nil
}

// checkAddress accepts HOST:PORT; port 0 asks for a free one.
func checkAddress(flag, address string, free bool) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		var n int
		n, err = net.LookupPort("tcp", port)
		if err == nil && n == 0 && !free {
			err = fmt.Errorf("no node listens at port 0")
		}
	}
	if err != nil {
		return cli.Usagef("%s %q: give HOST:PORT (%v)", flag, address, err)
	}
	return nil
}

// everywhere reports whether address is all addresses of this host.
func everywhere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip != nil && ip.IsUnspecified())
}

// loopback reports whether address cannot be reached from outside this host.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// completionLimit is how long the shell may wait for node names after a press of Tab.
const completionLimit = 2 * time.Second

// nodeNames completes the one argument of a command by the names of the cluster's nodes. A cluster that cannot be
// reached has none: a completion cannot show an error.
func nodeNames(on cluster, at *client.Where) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 || cli.FromEnvironment(cmd.Flags()) != nil || checkWhere(at) != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		var s client.Status
		err := withReader(ctx, on, *at, func(c client.Reader) (err error) {
			s, err = c.Status(ctx)
			return err
		})
		if err != nil {
			return nil, none
		}
		client.Sort(&s)
		var names []cobra.Completion
		for _, n := range s.Nodes {
			names = append(names, cobra.CompletionWithDesc(string(n.Name), string(n.Role)))
		}
		return names, none
	}
}
