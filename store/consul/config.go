package consul

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// Config says where Consul is. What is left empty comes from Consul's usual environment variables, which the client
// reads by itself: CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_AUTH, CONSUL_HTTP_SSL, CONSUL_HTTP_SSL_VERIFY,
// CONSUL_CACERT, CONSUL_CAPATH, CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY, CONSUL_TLS_SERVER_NAME, CONSUL_NAMESPACE and
// CONSUL_PARTITION.
type Config struct {
	// Addresses are host:port or http(s) URLs. The first is used while it can be connected to, then the next.
	Addresses []string
	// Prefix is what all keys begin with, and ends in a slash: raysys/<cluster>/.
	Prefix string
	// Token is the ACL token.
	Token string
	// Namespace is Consul Enterprise's.
	Namespace string
	// TLS is used for https addresses.
	TLS api.TLSConfig
	// Timeout bounds every call but Watch, beside its context. 0 means 10 s.
	Timeout time.Duration
}

// DefaultAddress is where an agent on this host listens.
const DefaultAddress = "127.0.0.1:8500"

// FromEnv reads RAYSYS_CONSUL (addresses, with commas between; else CONSUL_HTTP_ADDR, else 127.0.0.1:8500),
// RAYSYS_CLUSTER (else "default") and RAYSYS_CONSUL_PREFIX (else raysys/<cluster>/).
func FromEnv(getenv func(string) string) (Config, error) {
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	cluster := first(getenv("RAYSYS_CLUSTER"), "default")
	if strings.Contains(cluster, "/") {
		return Config{}, fmt.Errorf("RAYSYS_CLUSTER=%q: a cluster's name has no slash", cluster)
	}
	c := Config{
		Prefix:    first(getenv("RAYSYS_CONSUL_PREFIX"), "raysys/"+cluster+"/"),
		Token:     getenv(api.HTTPTokenEnvName),
		Namespace: getenv(api.HTTPNamespaceEnvName),
	}
	for _, a := range strings.Split(first(getenv("RAYSYS_CONSUL"), getenv(api.HTTPAddrEnvName), DefaultAddress), ",") {
		if a = strings.TrimSpace(a); a != "" {
			c.Addresses = append(c.Addresses, a)
		}
	}
	return c, c.check()
}

// shown is an address for messages, without a user, password or token that does not belong into it.
func shown(address string) string {
	if at := strings.LastIndex(address, "@"); at >= 0 {
		address = "..." + address[at:]
	}
	address, _, _ = strings.Cut(address, "?")
	return address
}

func (c Config) check() error {
	if len(c.Addresses) == 0 {
		return errors.New("no address of Consul: set RAYSYS_CONSUL to host:port, several with commas between")
	}
	for _, a := range c.Addresses {
		host := a
		if strings.Contains(a, "://") {
			u, err := url.Parse(a)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
				return fmt.Errorf("address of Consul %q: it looks like host:port, http://host:port or https://host:port, and the token is CONSUL_HTTP_TOKEN", shown(a))
			}
			if host = u.Host; u.Port() == "" {
				host = net.JoinHostPort(u.Hostname(), "80")
			}
		}
		if _, _, err := net.SplitHostPort(host); err != nil || strings.Contains(host, "@") {
			return fmt.Errorf("address of Consul %q: it looks like host:port", shown(a))
		}
	}
	if c.Prefix == "" || !strings.HasSuffix(c.Prefix, "/") || strings.HasPrefix(c.Prefix, "/") || strings.Contains(c.Prefix, "//") {
		return fmt.Errorf("prefix of keys %q: it begins with no slash and ends in one, as raysys/default/", c.Prefix)
	}
	return nil
}
