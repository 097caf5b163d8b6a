package consul

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// MinTTL is the shortest that a server lets a session have, unless its session_ttl_min says otherwise.
const MinTTL = 10 * time.Second

// NewSession implements store.KV. The session has no health check: it lives by its TTL alone, because the default
// check would end it with the agent on this host (C15).
func (s *Store) NewSession(ctx context.Context, name string, ttl time.Duration) (id string, err error) {
	c := call{what: "new session " + name, lane: sessionLane, writes: true}
	err = s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
		id, _, err = client.Session().CreateNoChecks(&api.SessionEntry{
			Name:      name,
			TTL:       ttl.String(),
			Behavior:  api.SessionBehaviorDelete,
			LockDelay: lockDelay,
		}, new(api.WriteOptions).WithContext(ctx))
		return err
	})
	return id, err
}

// Renew implements store.KV.
func (s *Store) Renew(ctx context.Context, session string) error {
	var entry *api.SessionEntry
	c := call{what: "renew session " + session, lane: sessionLane} // renewing twice is renewing
	err := s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
		entry, _, err = client.Session().Renew(session, new(api.WriteOptions).WithContext(ctx))
		return err
	})
	if err == nil && entry == nil {
		err = fmt.Errorf("%s: %w", c.what, store.ErrSessionGone)
	}
	return err
}

// Destroy implements store.KV.
func (s *Store) Destroy(ctx context.Context, session string) error {
	c := call{what: "destroy session " + session, lane: sessionLane, writes: true}
	return s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		_, err := client.Session().Destroy(session, new(api.WriteOptions).WithContext(ctx))
		return err
	})
}

// Session implements store.KV.
func (s *Store) Session(ctx context.Context, session string) (bool, error) {
	var entry *api.SessionEntry
	c := call{what: "read session " + session, lane: sessionLane}
	err := s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
		entry, _, err = client.Session().Info(session, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	})
	return entry != nil, err
}
