package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/internal/natskey"
)

// Greeting is what a NATS server says of itself in its first line.
type Greeting struct {
	Version   string `json:"version"`
	JetStream bool   `json:"jetstream"`
	TLS       bool   `json:"tls_required"`
}

// natsServer is one URL, and what came of it.
type natsServer struct {
	scheme, address string
	greeting        *Greeting // nil where TLS comes first
	err             error
}

// nats: this host reaches the servers of streams, and JetStream is on. It does not log in, so that it needs no credentials.
func (d *Doctor) nats(ctx context.Context, _ *ground) Finding {
	list, from := d.NATS, "RAYSYS_NATS"
	if list == "" {
		from = "the cluster's key nats"
		var err error
		if list, err = d.StoredNATS(ctx); err != nil {
			return Finding{Level: Failed, Detail: err.Error(), Fix: "see consul and acl; consul kv get raysys/CLUSTER/nats shows the key"}
		}
	}
	if list == "" {
		return Finding{Level: OK, Detail: "streams have no NATS server: neither RAYSYS_NATS nor the cluster's key nats names one"}
	}
	var servers []*natsServer
	for _, s := range strings.Split(list, ",") {
		scheme, address, err := natskey.Parse(s) // without user, password or token
		if err != nil {
			return Finding{Level: Failed, Detail: fmt.Sprintf("%s: %v", from, err), Fix: "give nats://HOST:PORT, several with commas between"}
		}
		servers = append(servers, &natsServer{scheme: scheme, address: address})
	}
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, dialLimit)
			defer cancel()
			switch s.scheme {
			case "nats":
				var g Greeting
				if g, s.err = d.Greet(ctx, s.address); s.err == nil {
					s.greeting = &g
				}
			case natskey.Memory: // of package stream: there is no server
			default:
				s.err = d.Dial(ctx, s.address)
			}
		})
	}
	wg.Wait()
	return judge(servers, from)
}

// judge makes one finding of what came of all servers.
func judge(servers []*natsServer, from string) Finding {
	var bad, off, closed []string
	versions := map[string]bool{}
	on := 0
	for _, s := range servers {
		switch {
		case s.scheme == natskey.Memory:
			return Finding{Level: OK, Detail: "streams are in the memory of each process: " + from + " is memory:"}
		case s.err != nil:
			bad = append(bad, fmt.Sprintf("%s: %v", s.address, s.err))
		case s.greeting == nil || s.greeting.TLS:
			closed = append(closed, s.address)
		default:
			versions[orUnknown(s.greeting.Version)] = true
			if on++; !s.greeting.JetStream {
				off = append(off, s.address)
			}
		}
	}
	f := Finding{Level: OK, Detail: fmt.Sprintf("%d of %d servers of %s answer", len(servers)-len(bad), len(servers), from)}
	if len(versions) > 0 {
		f.Detail += fmt.Sprintf(" (version %s, %d with JetStream)", strings.Join(slices.Sorted(maps.Keys(versions)), ", "), on-len(off))
	}
	if closed != nil {
		f.Detail += fmt.Sprintf("; behind TLS, not looked at: %s", few(closed))
	}
	level := func(all bool) Level {
		if all {
			return Failed
		}
		return Warning // the others carry the streams
	}
	switch {
	case bad != nil:
		f.Level, f.Detail = level(len(bad) == len(servers)), f.Detail+"; not reached: "+few(bad)
		f.Fix = "start those servers, open their ports in the firewall, or mend " + from
	case off != nil:
		f.Level, f.Detail = level(len(off) == len(servers)), f.Detail+"; JetStream is off: "+few(off)
		f.Fix = "give those servers a jetstream {} block with a store_dir, or start them with -js"
	}
	return f
}

// streams: those that are delivered have the copies that they should have, as the nodes say.
func (d *Doctor) streams(ctx context.Context, _ *ground) Finding {
	all, err := d.Streams(ctx)
	if err != nil {
		return Finding{Level: Warning, Detail: err.Error(), Fix: "see cluster"}
	}
	if thin := all.Thin(); thin != nil {
		return Finding{
			Level: Warning, Detail: few(thin) + ": a server that is lost takes events along",
			Fix: "start the servers that are away, and see their room: the streams are looked at again within the hour, and when their agents move",
		}
	}
	subscriptions := map[string]bool{}
	for _, p := range all.Parts {
		subscriptions[p.Namespace+" "+p.Stream+" "+p.To] = true
	}
	return Finding{Level: OK, Detail: client.Some(len(subscriptions), "subscription", "subscriptions") + ", and no stream has fewer copies than it should"}
}

// maxGreeting is more than a server says in its first line, which lists the addresses of its cluster.
const maxGreeting = 256 << 10

// Greet opens a TCP connection, reads the first line and closes it.
func Greet(ctx context.Context, address string) (g Greeting, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return g, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(c, maxGreeting)).ReadString('\n')
	if ctx.Err() != nil {
		return g, fmt.Errorf("it says nothing: %w", context.Cause(ctx))
	}
	if err != nil && line == "" {
		return g, fmt.Errorf("read its first line: %w", err)
	}
	info, ok := strings.CutPrefix(line, "INFO ")
	if !ok || json.Unmarshal([]byte(info), &g) != nil {
		return g, fmt.Errorf("it is no NATS server: its first line is %.40q", line)
	}
	return g, nil
}
