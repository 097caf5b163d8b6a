package system

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

// ClusterConfig describes how a node joins a cluster. Consul or Store must be set.
type ClusterConfig struct {
	// Name of the cluster: the prefix of its keys in the store. Empty: "default".
	Name string
	// Consul is the address of a Consul agent or server: host:port, several with commas, or a URL. Token, TLS and the
	// rest come from Consul's own variables (CONSUL_HTTP_TOKEN, CONSUL_CACERT, ...).
	Consul string
	// Store is used in place of Consul; the caller closes it. The testkit gives an embedded one.
	Store store.KV
	// Role of the node. Empty: Driver.
	Role Role
	// Listen is the address for other nodes. Empty: 127.0.0.1 and a free port. Beyond loopback it needs TLS or
	// Insecure.
	Listen string
	// Advertise is the address that other nodes dial, where it differs from Listen (which it must for 0.0.0.0).
	Advertise string
	// TLS has the files of the node's identity (rule C18).
	TLS TLSFiles
	// Insecure allows plain TCP beyond loopback: every process that reaches the port can call every function.
	Insecure bool
	// Labels describe the node to placement.
	Labels map[string]string
	// Observer: the node joins for a moment, to read the cluster's state and send requests. Status and Consul's catalog leave
	// it out.
	Observer bool
	// Launch names the start of this process, so that its supervisor can prove its death (raysys node sets RAYSYS_LAUNCH).
	// Empty: no process will.
	Launch string
	// Supervisor gets a line for each thing that the supervisor of this process must know before its exit: "draining" when
	// the node was asked to drain, "restarting" when the supervisor shall start the program again then, "staying"
	// when that
	// was cancelled, "misconfigured" by Run when New refused the Config, or the members of the cluster have other
	// settings.
	// FromEnv takes the pipe that raysys node gives (RAYSYS_SUPERVISOR). Nil: there is no supervisor.
	Supervisor io.Writer
	// Strategies are placement strategies of the program's own, by the name that raysys.Placement gives.
	Strategies map[raysys.Strategy]placement.Strategy
	// TTL of the node's lease: 10 s unless set, which is the least that Consul allows.
	TTL time.Duration
	// Silence is how long this node lets a worker say nothing before it helps to replace it, and how long the others
	// may rely on this node not to: 600 ms to TTL. 4 s unless set, or TTL where that is shorter. A worker whose
	// machine stops for less loses nothing but that time. Set it higher where machines stop for longer.
	Silence time.Duration
	// JoinTimeout is how long Start goes on trying while the store cannot be reached. 0: until its ctx ends.
	JoinTimeout time.Duration

	parts standins.Parts // which tests give
}

func init() {
	standins.Of = func(cluster any) *standins.Parts { return &cluster.(*ClusterConfig).parts }
	standins.Inspector = func(cfg any) *core.Inspector { return &cfg.(*Config).inspect }
	standins.MemoryUsed = func(cfg any) *func() int64 { return &cfg.(*Config).used }
	standins.Fakes = func(cfg any) *map[*core.Entry]detour.Fake { return &cfg.(*Config).fakes }
}

// TLSFiles are PEM files: the node's certificate with the URI raysys://<cluster>/<node> in it, its key, and the
// authority that signed the certificates of all nodes.
type TLSFiles struct{ Cert, Key, CA string }

func (f TLSFiles) set() bool { return f != TLSFiles{} }

func (f TLSFiles) whole() bool { return f.Cert != "" && f.Key != "" && f.CA != "" }

const (
	defaultCluster = "default"
	defaultListen  = "127.0.0.1:0"
	defaultTTL     = 10 * time.Second
	defaultSilence = 4 * time.Second
)

func clusterFrom(e *environment) *ClusterConfig {
	c := &ClusterConfig{
		Name: e.get("RAYSYS_CLUSTER"), Consul: e.get("RAYSYS_CONSUL"), Role: Role(e.get("RAYSYS_ROLE")),
		Listen: e.get("RAYSYS_LISTEN"), Advertise: e.get("RAYSYS_ADVERTISE"),
		TLS:      TLSFiles{Cert: e.get("RAYSYS_TLS_CERT"), Key: e.get("RAYSYS_TLS_KEY"), CA: e.get("RAYSYS_TLS_CA")},
		Insecure: e.boolean("RAYSYS_INSECURE"), Launch: e.get("RAYSYS_LAUNCH"), Supervisor: supervisorOf(e.get("RAYSYS_SUPERVISOR")),
		TTL: e.duration("RAYSYS_TTL"), Silence: e.duration("RAYSYS_SILENCE"),
		JoinTimeout: e.duration("RAYSYS_JOIN_TIMEOUT"),
	}
	e.pairs("RAYSYS_LABELS", "key=value,key=value", func(key, value string) bool {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[key] = value
		return true
	})
	return c
}

// consul says how to reach Consul. Settings that the ClusterConfig lacks come from Consul's own environment variables.
func (c *ClusterConfig) consul() (consul.Config, error) {
	return consul.FromEnv(func(name string) string {
		switch name {
		case "RAYSYS_CONSUL":
			return c.Consul
		case "RAYSYS_CLUSTER":
			return c.Name
		}
		return os.Getenv(name)
	})
}

// open connects to the store when it is first used.
func (c *ClusterConfig) open() (store.KV, error) {
	conf, err := c.consul()
	if err != nil {
		return nil, err
	}
	return consul.Open(conf)
}

func (c *ClusterConfig) complete() error {
	var errs []error
	if c.Name == "" {
		c.Name = defaultCluster
	}
	if strings.ContainsAny(c.Name, "/ \x00") {
		errs = append(errs, fmt.Errorf("cluster name %q: it is part of keys: leave out slashes and spaces", c.Name))
	}
	if c.Consul == "" && c.Store == nil {
		errs = append(errs, errors.New("Config.Cluster names no Consul: set Consul (RAYSYS_CONSUL), or leave Cluster out to run in one process"))
	}
	if c.Consul != "" && c.Store == nil {
		_, err := c.consul()
		errs = append(errs, err)
	}
	if c.Role == "" {
		c.Role = Driver
	}
	errs = append(errs, c.Role.valid())
	if c.Listen == "" {
		c.Listen = defaultListen
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.TTL < 0 {
		errs = append(errs, fmt.Errorf("Config.Cluster.TTL is %v: give a positive duration", c.TTL))
	}
	if c.Silence == 0 && c.TTL > 0 {
		c.Silence = min(defaultSilence, c.TTL)
	} else if least := min(member.MinSilence, c.TTL); c.TTL > 0 && (c.Silence < least || c.Silence > c.TTL) {
		const bad = "Config.Cluster.Silence (RAYSYS_SILENCE) is %v: give %v to the TTL (RAYSYS_TTL), which is %v"
		errs = append(errs, fmt.Errorf(bad, c.Silence, least, c.TTL))
	}
	if c.JoinTimeout < 0 {
		errs = append(errs, fmt.Errorf("Config.Cluster.JoinTimeout is %v: give 0 (no limit) or more", c.JoinTimeout))
	}
	if c.parts.Network != nil {
		return errors.Join(errs...)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		errs = append(errs, fmt.Errorf("listen address %q: %w: give host:port", c.Listen, err))
	} else if ip := net.ParseIP(host); (host == "" || ip != nil && ip.IsUnspecified()) && c.Advertise == "" {
		errs = append(errs, fmt.Errorf("listen address %q is every address of this host: say with Advertise (RAYSYS_ADVERTISE) which one other nodes dial", c.Listen))
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			errs = append(errs, fmt.Errorf("advertised address %q: %w: give host:port", c.Advertise, err))
		}
	}
	if f := c.TLS; f.set() && !f.whole() {
		errs = append(errs, fmt.Errorf("TLS needs all of certificate (%q), key (%q) and CA (%q): set RAYSYS_TLS_CERT, RAYSYS_TLS_KEY and RAYSYS_TLS_CA", f.Cert, f.Key, f.CA))
	}
	return errors.Join(errs...)
}

// member is what package node knows of a Config for a cluster.
func (cfg *Config) member() node.Config {
	c := cfg.Cluster
	return node.Config{
		Cluster: c.Name, Role: string(c.Role), Namespace: cfg.Namespace, Table: cfg.Table, Strategies: c.Strategies, Consul: c.Consul, Listen: c.Listen, Advertise: c.Advertise,
		Record: member.Info{
			ID: cfg.Name, Role: c.Role.member(), Serves: c.Role == Both, Resources: cfg.Resources, Devices: cfg.Devices, Labels: c.Labels,
			Version: Version(), Launch: c.Launch, Observer: c.Observer,
		},
		Cert: c.TLS.Cert, CA: c.TLS.CA, TTL: c.TTL, Silence: c.Silence,
		Rebalance:   cfg.Rebalance,
		JoinTimeout: c.JoinTimeout, Durable: cfg.Lineage == LineageDurable, Supervisor: c.Supervisor, Parts: c.parts,
		Store: c.Store, Open: c.open, Transport: c.transport,
		Allow: func(cert *x509.Certificate, i member.Info) error { return allowed(cert, roleOf(i)) },
	}
}
