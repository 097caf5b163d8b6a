package consul

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// Service is a node as Consul's catalog and UI show it. It has no part in what the cluster decides.
type Service struct {
	ID      string // unique at the agent; a second registration replaces it
	Name    string // what all nodes of the cluster share
	Address string
	Port    int
	Tags    []string
	Meta    map[string]string
	// TTL is how long the service stays healthy after Pass. It goes from the catalog a minute after that.
	TTL time.Duration
}

// goneAfter is the shortest that Consul offers.
const goneAfter = time.Minute

func checkID(id string) string { return "service:" + id }

// Register enters the service at the agent that is used now, healthy. It may be repeated. The check belongs to the
// service and to no session.
func (s *Store) Register(ctx context.Context, svc Service) error {
	c := call{what: "register service " + svc.ID, lane: sessionLane, writes: true}
	return s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		return client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
			ID: svc.ID, Name: svc.Name, Address: svc.Address, Port: svc.Port, Tags: svc.Tags, Meta: svc.Meta,
			Check: &api.AgentServiceCheck{
				CheckID:                        checkID(svc.ID),
				Name:                           "session of the node",
				TTL:                            svc.TTL.String(),
				Status:                         api.HealthPassing,
				DeregisterCriticalServiceAfter: goneAfter.String(),
			},
		}, api.ServiceRegisterOpts{}.WithContext(ctx))
	})
}

// Pass says that the service is healthy. store.ErrNotFound when the agent does not know it: register it again.
func (s *Store) Pass(ctx context.Context, id, note string) error {
	c := call{what: "pass service " + id, lane: sessionLane}
	return s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		err := client.Agent().UpdateTTLOpts(checkID(id), note, api.HealthPassing, new(api.QueryOptions).WithContext(ctx))
		if status, ok := errors.AsType[api.StatusError](err); ok && status.Code == http.StatusNotFound {
			return store.ErrNotFound
		}
		return err
	})
}

// Deregister takes the service out of the catalog.
func (s *Store) Deregister(ctx context.Context, id string) error {
	c := call{what: "deregister service " + id, lane: sessionLane, writes: true}
	return s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		return client.Agent().ServiceDeregisterOpts(id, new(api.QueryOptions).WithContext(ctx))
	})
}

// Consul ends a session with the catalog node on which it was made. The node of an agent that is no server leaves the
// catalog when that agent stops in good order, and takes sessions along that have no checks, too. So the Store registers
// a catalog node for each session, which no agent stands behind, and removes it with the session.

// nodeSuffix is the length of what makes the name of a session's node unique. Consul takes names that differ in case for
// one node; and two lives of one raysys node must not share a catalog node, or the end of one would end the other.
const nodeSuffix = 8

// nodeName begins the name of the catalog node of a session: raysys-CLUSTER-NODE for "raysys CLUSTER NODE".
func nodeName(session string) string {
	return "raysys-" + strings.ReplaceAll(strings.TrimPrefix(session, "raysys "), " ", "-") + "-"
}

// ownsNode reports whether a session's catalog node is one that registerNode made for it.
func ownsNode(session, node string) bool {
	rest, ok := strings.CutPrefix(node, nodeName(session))
	return ok && len(rest) == nodeSuffix
}

// nodeOwner is the key in the metadata of a session's catalog node that says whose keys the session is to hold.
const nodeOwner = "raysys-keys"

func (c Config) nodeOwner() string { return c.Namespace + ":" + c.Prefix }

// registerNode enters a catalog node for a session of this name.
func (s *Store) registerNode(ctx context.Context, session string) (node string, err error) {
	node = nodeName(session) + strings.ToLower(rand.Text()[:nodeSuffix])
	c := call{what: "register node " + node, lane: sessionLane, writes: true}
	return node, s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		_, err := client.Catalog().Register(&api.CatalogRegistration{
			Node: node, Address: "127.0.0.1", // Consul wants one; nothing listens there for this node
			NodeMeta: map[string]string{"external-node": "true", "external-probe": "false", nodeOwner: s.cfg.nodeOwner()},
		}, new(api.WriteOptions).WithContext(ctx))
		return err
	})
}

// removeNode takes a session's node out of the catalog, and ends the session with it. Sweep removes what it could not.
func (s *Store) removeNode(ctx context.Context, node string) error {
	c := call{what: "remove node " + node, lane: sessionLane, writes: true}
	return s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		_, err := client.Catalog().Deregister(&api.CatalogDeregistration{Node: node}, new(api.WriteOptions).WithContext(ctx))
		return err
	})
}

// removeLimit bounds the removal of a node whose session was not made.
const removeLimit = 2 * time.Second

// OnAgent says why a session of this Store was made on the catalog node of the agent, which ends it when it stops in good
// order; nil where each has a node of its own.
func (s *Store) OnAgent() error {
	if err := s.onAgent.Load(); err != nil {
		return *err
	}
	return nil
}

// Sweep removes the catalog nodes of sessions that have ended by their TTL: those of this prefix that had no session in
// this call and in the one before. Calls must be minutes apart, since a node is there for a moment before its session.
func (s *Store) Sweep(ctx context.Context) error {
	var nodes []*api.Node
	var sessions []*api.SessionEntry
	c := call{what: "list nodes of sessions", lane: sessionLane}
	err := s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
		q := (&api.QueryOptions{RequireConsistent: true, NodeMeta: map[string]string{nodeOwner: s.cfg.nodeOwner()}}).WithContext(ctx)
		if nodes, _, err = client.Catalog().Nodes(q); err == nil {
			sessions, _, err = client.Session().List((&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		}
		return err
	})
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, e := range sessions {
		used[e.Node] = true
	}
	s.mu.Lock()
	seen := false // Consul leaves out what the token must not read: without the own session nothing is proven of the others
	for _, node := range s.nodes {
		seen = seen || used[node]
	}
	before := s.unused
	s.unused = map[string]bool{}
	var gone []string
	for _, n := range nodes {
		if used[n.Node] || !seen {
			continue
		}
		s.unused[n.Node] = true
		if before[n.Node] {
			gone = append(gone, n.Node)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, node := range gone {
		errs = append(errs, s.removeNode(ctx, node))
	}
	return errors.Join(errs...)
}
