package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// MinTTL is the shortest that a server lets a session have, unless its session_ttl_min says otherwise.
const MinTTL = 10 * time.Second

// NewSession implements store.KV. The session has no health check and a catalog node of its own: it lives by its TTL
// alone, and does not end with the agent on this host (C15). Where the token must not register nodes it lies on the agent's.
func (s *Store) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	e := api.SessionEntry{Name: name, TTL: ttl.String(), Behavior: api.SessionBehaviorDelete, LockDelay: lockDelay}
	node, err := s.registerNode(ctx, e.Name)
	if err == nil {
		own := e
		own.Node = node
		id, err2 := s.createSession(ctx, own)
		if err2 == nil {
			s.mu.Lock()
			s.nodes[id] = node
			s.mu.Unlock()
			return id, nil
		}
		if !errors.Is(err2, store.ErrUnavailable) {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
			_ = s.removeNode(end, node)
			cancel()
		}
		err = err2
	}
	if !errors.Is(err, store.ErrDenied) {
		return "", err
	}
	id, err2 := s.createSession(ctx, e)
	if err2 == nil {
		s.onAgent.Store(&err)
	}
	return id, err2
}

func (s *Store) createSession(ctx context.Context, e api.SessionEntry) (id string, err error) {
	c := call{what: "new session " + e.Name, lane: sessionLane, writes: true}
	err = s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
		id, _, err = client.Session().CreateNoChecks(&e, new(api.WriteOptions).WithContext(ctx))
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

// Destroy implements store.KV. It removes the session's catalog node, too.
func (s *Store) Destroy(ctx context.Context, session string) error {
	entry, err := s.readSession(ctx, session)
	if err != nil {
		return err
	}
	s.mu.Lock()
	node := s.nodes[session]
	s.mu.Unlock()
	if entry != nil {
		c := call{what: "destroy session " + session, lane: sessionLane, writes: true}
		err := s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
			_, err := client.Session().Destroy(session, new(api.WriteOptions).WithContext(ctx))
			return err
		})
		if err != nil {
			return err
		}
		if ownsNode(entry.Name, entry.Node) {
			node = entry.Node
		}
	}
	if node != "" {
		_ = s.removeNode(ctx, node) // the session, which counts, is gone; Sweep finds the node
	}
	s.mu.Lock()
	delete(s.nodes, session)
	s.mu.Unlock()
	return nil
}

func (s *Store) readSession(ctx context.Context, session string) (entry *api.SessionEntry, err error) {
	c := call{what: "read session " + session, lane: sessionLane}
	err = s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
		entry, _, err = client.Session().Info(session, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	})
	return entry, err
}

// Session implements store.KV.
func (s *Store) Session(ctx context.Context, session string) (bool, error) {
	entry, err := s.readSession(ctx, session)
	return entry != nil, err
}
