package consul

import (
	"context"
	"errors"
	"net/http"
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
