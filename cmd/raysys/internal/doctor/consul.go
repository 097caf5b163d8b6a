package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys/store"
)

// majority is what to do where Consul cannot change anything.
const majority = "bring a majority of the Consul servers up: consul operator raft list-peers"

func (d *Doctor) consul(ctx context.Context, g *ground) Finding {
	a, err := d.Consul.Agent(ctx)
	if errors.Is(err, store.ErrDenied) {
		return d.denied(fmt.Sprintf("%s answers", d.Address), err)
	}
	if err != nil {
		return Finding{
			Level: Failed, Detail: fmt.Sprintf("%s does not answer: %v", d.Address, err),
			Fix: "start an agent there (consul agent), or say where one is with --consul",
		}
	}
	g.agent = &a
	if a.Leader == "" {
		return Finding{
			Level: Failed, Detail: fmt.Sprintf("%s answers, but its servers have no leader", d.Address),
			Fix: majority,
		}
	}
	f := Finding{Level: OK, Detail: fmt.Sprintf("%s answers (version %s, leader %s)", d.Address, orUnknown(a.Version), a.Leader)}
	if plainBeyondLoopback(d.Address) {
		f.Level, f.Detail = Warning, f.Detail+"; the way there is plain http: who is on it reads the token and all that the cluster keeps"
		f.Fix = "ask an agent on this host (127.0.0.1:8500), or give an https address: docs/operating/start.md"
	}
	return f
}

// plainBeyondLoopback reports whether an address of Consul, host:port or a URL, is neither https nor of this host.
func plainBeyondLoopback(address string) bool {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "http", address
	}
	if on, _ := strconv.ParseBool(os.Getenv("CONSUL_HTTP_SSL")); scheme == "https" || !ok && on {
		return false
	}
	host := rest
	if h, _, err := net.SplitHostPort(rest); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}

func (d *Doctor) acl(ctx context.Context, _ *ground) Finding {
	err := d.Consul.TryWrite(ctx)
	switch {
	case errors.Is(err, ErrOnAgent):
		return Finding{
			Level: Warning, Detail: "a session can hold a key, but has no catalog node of its own: an agent that is no server and stops in good order ends it, and fences the node",
			Fix: "allow node_prefix and session_prefix write as in docs/operating/consul.md, or set leave_on_terminate = false in the agent's configuration",
		}
	case errors.Is(err, store.ErrDenied):
		return d.denied("make a session and hold a key", err)
	case err != nil && strings.Contains(err.Error(), "Consul Enterprise feature"): // the client sends CONSUL_NAMESPACE and CONSUL_PARTITION with each request
		return Finding{
			Level: Failed, Detail: fmt.Sprintf("make a session and hold a key: %v", err),
			Fix: "unset CONSUL_NAMESPACE and CONSUL_PARTITION: only Consul Enterprise has namespaces and partitions",
		}
	case errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome): // the leader that the agent knows may just have died
		return Finding{Level: Failed, Detail: fmt.Sprintf("make a session and hold a key: %v", err), Fix: majority}
	case err != nil:
		return Finding{
			Level: Failed, Detail: fmt.Sprintf("make a session and hold a key: %v", err),
			Fix: "give CONSUL_HTTP_TOKEN a token with the policy of docs/operating/consul.md",
		}
	}
	if d.Token && d.Consul.TryWriteAsAnyone(ctx) != nil {
		return Finding{Level: OK, Detail: "a session can hold a key"}
	}
	return Finding{
		Level: Warning, Detail: "a session can hold a key, and needs no token for that: whoever reaches Consul may read, change and drain the cluster",
		Fix: "turn ACL on with default_policy deny: docs/operating/start.md, Three hosts",
	}
}

// denied is for what Consul's ACL refuses: without a token, or for the one there is.
func (d *Doctor) denied(what string, err error) Finding {
	f := Finding{
		Level: Failed, Detail: fmt.Sprintf("%s: the token allows too little: %v", what, err),
		Fix: "give CONSUL_HTTP_TOKEN a token with the policy of docs/operating/consul.md",
	}
	if !d.Token {
		f.Detail = fmt.Sprintf("%s: needs a token, and there is none: %v", what, err)
	}
	return f
}

// wantConns is what one host needs: 16 for each node (rule C13) and some for its neighbours on the host.
const wantConns = 100

func (d *Doctor) connections(_ context.Context, g *ground) Finding {
	switch n := g.agent.ConnsPerClient; {
	case n == 0:
		return Finding{Level: Warning, Detail: "the agent does not tell its limit", Fix: "allow agent:read, or see that limits.http_max_conns_per_client is 100 or more"}
	case n < wantConns:
		return Finding{
			Level: Warning, Detail: fmt.Sprintf("the agent takes %d connections of one address, a node uses up to 16", n),
			Fix: "set limits.http_max_conns_per_client to 200 in the agent's configuration",
		}
	default:
		return Finding{Level: OK, Detail: fmt.Sprintf("the agent takes %d of one address", n)}
	}
}

// Leases count durations, so that a wrong clock breaks none; certificates and logs do look at the time of day.
const (
	skewWarning = 5 * time.Second
	skewFailed  = time.Minute
)

func (d *Doctor) clock(_ context.Context, g *ground) Finding {
	if g.agent.Time.IsZero() {
		return Finding{Level: Warning, Detail: "the agent does not tell the time", Fix: "compare date on all hosts"}
	}
	// The agent's answer is cut to the second and half a round trip old.
	skew := g.agent.Heard.Sub(g.agent.Time.Add(g.agent.TookHalf + time.Second/2)).Abs()
	detail := fmt.Sprintf("%v from the agent's", skew.Round(time.Second))
	if skew < 2*time.Second {
		detail = "the same as the agent's" // as far as its whole seconds can tell
	}
	switch {
	case skew > skewFailed:
		return Finding{Level: Failed, Detail: detail, Fix: "set the clock (timedatectl set-ntp true): certificates may seem not yet valid"}
	case skew > skewWarning:
		return Finding{Level: Warning, Detail: detail, Fix: "set the clock (timedatectl set-ntp true): logs of several hosts do not line up"}
	}
	return Finding{Level: OK, Detail: detail}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
