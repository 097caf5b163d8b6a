package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/store"
)

func (d *Doctor) cluster(ctx context.Context, g *ground) Finding {
	s, err := d.Status(ctx)
	if errors.Is(err, store.ErrUnavailable) {
		return Finding{Level: Failed, Detail: err.Error(), Fix: majority}
	}
	if err != nil {
		return Finding{Level: Failed, Detail: err.Error(), Fix: "start a node: raysys node --app ./bin/app"}
	}
	g.status = &s
	var silent []string
	for _, n := range s.Nodes {
		if n.State == inspect.NodeSuspect || n.State == inspect.NodeSuspended || n.State == inspect.NodeUnknown {
			silent = append(silent, fmt.Sprintf("%s is %s", n.Name, n.State))
		}
	}
	leaderless := 0
	for _, sh := range s.Shards {
		if sh.Node == "" {
			leaderless++
		}
	}
	f := Finding{Level: OK, Detail: client.Some(len(s.Nodes), "node", "nodes") + ", " + client.Some(len(s.Shards), "shard", "shards")}
	switch {
	case len(s.Nodes) == 0:
		return Finding{Level: Warning, Detail: "no node has joined", Fix: "start one: raysys node --app ./bin/app"}
	case leaderless > 0:
		f.Level, f.Detail = Failed, f.Detail+fmt.Sprintf(", %d of them without a leader", leaderless)
		f.Fix = "wait for a lease (20 s); if it stays, no worker can write: see acl, and the workers' logs"
	case silent != nil:
		f.Level, f.Detail = Warning, f.Detail+": "+strings.Join(silent, ", ")
		f.Fix = "look at those hosts; the cluster gives them up after a lease"
	}
	return f
}

// dialLimit bounds one connection, so that a host that swallows packets does not use up the time of the others.
const dialLimit = 3 * time.Second

// dialsAtOnce bounds how many are tried at the same time.
const dialsAtOnce = 16

// portsOut: this host reaches every node.
func (d *Doctor) portsOut(ctx context.Context, g *ground) Finding {
	// Drivers may be where no node can dial them: they dial.
	nodes := slices.DeleteFunc(slices.Clone(g.status.Nodes), func(n client.Node) bool { return n.Role == "driver" })
	errs := make([]error, len(nodes))
	slots := make(chan struct{}, dialsAtOnce)
	var wg sync.WaitGroup
	for i, n := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, dialLimit)
			defer cancel()
			errs[i] = d.Dial(ctx, n.Address)
		})
	}
	wg.Wait()
	var bad []string
	for i, err := range errs {
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", nodes[i].Name, err))
		}
	}
	if bad != nil {
		return Finding{
			Level: Failed, Detail: fmt.Sprintf("from here %d of %d nodes cannot be reached: %s", len(bad), len(nodes), few(bad)),
			Fix: "open the node's port in the firewall, and give an address that others reach: --listen, --advertise",
		}
	}
	return Finding{Level: OK, Detail: fmt.Sprintf("from here all %d nodes can be reached", len(nodes))}
}

// portsBetween: every node reaches every other, in both directions.
func (d *Doctor) portsBetween(ctx context.Context, _ *ground) Finding {
	links, err := d.Mesh.Links(ctx)
	if err != nil {
		return Finding{Level: Warning, Detail: fmt.Sprintf("ask the nodes for their links: %v", err), Fix: "run it on a host that reaches the nodes"}
	}
	var bad []string
	for _, l := range links {
		if l.Error != "" {
			bad = append(bad, fmt.Sprintf("%s to %s: %s", l.From, l.To, l.Error))
		}
	}
	slices.Sort(bad)
	if bad != nil {
		return Finding{
			Level: Failed, Detail: fmt.Sprintf("%d of %d ways are broken: %s", len(bad), len(links), few(bad)),
			Fix: "open the port of the second node for the first; calls between them take a detour until then",
		}
	}
	return Finding{Level: OK, Detail: fmt.Sprintf("all %d ways between nodes are open", len(links))}
}

// electors: each worker has enough of them alive to be replaced within seconds when it is silent, and all have one
// lease.
func (d *Doctor) electors(_ context.Context, g *ground) Finding {
	alive := map[raysys.NodeID]bool{}
	workers := 0
	ttls := map[time.Duration][]string{}
	for _, n := range g.status.Nodes {
		alive[n.Name] = n.State != inspect.NodeUnknown && n.State != inspect.NodeSuspect
		if n.Role != "driver" && n.State == inspect.NodeActive {
			workers++
		}
		if n.TTL > 0 {
			ttls[n.TTL] = append(ttls[n.TTL], string(n.Name))
		}
	}
	var without []string
	for _, n := range g.status.Nodes {
		live := 0
		for _, e := range n.Electors {
			if alive[e] {
				live++
			}
		}
		host := n.Role != "driver" && n.State == inspect.NodeActive && n.TTL > 0
		if host && workers > 1 && 2*live <= len(n.Electors) {
			without = append(without, fmt.Sprintf("%s has %d of %d", n.Name, live, len(n.Electors)))
		}
	}
	switch {
	case len(ttls) > 1:
		var s []string
		for _, ttl := range slices.Sorted(maps.Keys(ttls)) {
			s = append(s, fmt.Sprintf("%v on %s", ttl, few(ttls[ttl])))
		}
		return Finding{
			Level: Warning, Detail: "the nodes have different leases: " + strings.Join(s, "; "),
			Fix: "give all nodes the same RAYSYS_TTL",
		}
	case without != nil:
		return Finding{
			Level: Warning, Detail: "too few electors are alive: " + few(without),
			Fix: "wait 5 s; if it stays, such a worker is replaced after 20 s of silence: see ports between",
		}
	}
	return Finding{Level: OK, Detail: "each worker has electors that live"}
}

func (d *Doctor) version(_ context.Context, g *ground) Finding {
	by := map[string][]string{}
	for _, n := range g.status.Nodes {
		by[n.Version] = append(by[n.Version], string(n.Name))
	}
	versions := slices.Sorted(maps.Keys(by))
	switch {
	case len(versions) > 1:
		var s []string
		for _, v := range versions {
			s = append(s, fmt.Sprintf("%s on %s", orUnknown(v), few(by[v])))
		}
		return Finding{Level: Warning, Detail: strings.Join(s, "; "), Fix: "finish the upgrade: neighbouring versions work together, and new features wait for the last node"}
	case len(versions) == 1 && versions[0] != d.Version:
		return Finding{Level: Warning, Detail: fmt.Sprintf("the nodes run %s, this command is %s", orUnknown(versions[0]), d.Version), Fix: "use the command of the nodes' version"}
	}
	return Finding{Level: OK, Detail: "all run " + d.Version}
}

// outboxes: what durable grains tell others arrives.
func (d *Doctor) outboxes(ctx context.Context, _ *ground) Finding {
	all, err := d.Outboxes(ctx)
	if err != nil {
		return Finding{Level: Warning, Detail: err.Error(), Fix: "see cluster"}
	}
	var late []string
	for _, g := range all.Grains {
		s := fmt.Sprintf("%s/%s has %d messages, the oldest for %v",
			g.Kind, printable.Escape(g.Key), g.Outbox, g.OutboxAge.Round(time.Second))
		if len(g.Receivers) > 0 {
			s += ", most to " + printable.Escape(g.Receivers[0].To)
		}
		late = append(late, s)
	}
	if late != nil {
		return Finding{
			Level: Warning,
			Detail: fmt.Sprintf("messages of %s do not arrive: %s",
				client.Some(all.Count, "durable grain", "durable grains"), few(late)),
			Fix: "raysys get KIND/KEY says why, before there are 4,096 and calls of the grain fail; raysys outbox " +
				"drop removes those to a receiver that is gone for good",
		}
	}
	return Finding{Level: OK, Detail: "what durable grains tell others arrives"}
}

// few shows at most five.
func few(s []string) string {
	if n := len(s); n > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(s[:5], ", "), n-5)
	}
	return strings.Join(s, ", ")
}

// Dial opens a TCP connection and closes it.
func Dial(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}
