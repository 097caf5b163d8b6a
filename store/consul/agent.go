package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// Agent is what the agent that is used now says of itself. Version and ConnsPerClient are zero where the token must not
// read them (agent:read).
type Agent struct {
	Version        string
	Leader         string        // of its servers; "" has none now
	ConnsPerClient int           // connections that it takes from one address (limits.http_max_conns_per_client)
	Time           time.Time     // its clock when it answered, to the second; zero when it did not say
	TookHalf       time.Duration // half of how long that answer took
}

// Agent asks it.
func (s *Store) Agent(ctx context.Context) (Agent, error) {
	var a Agent
	began := time.Now()
	answered := func(h http.Header) {
		a.Time, _ = http.ParseTime(h.Get("Date")) // an agent behind a proxy may leave it out
		a.TookHalf = time.Since(began) / 2
	}
	err := s.do(ctx, call{what: "read leader", lane: sessionLane}, func(ctx context.Context, c *api.Client) (err error) {
		began = time.Now()
		q := (&api.QueryOptions{}).WithContext(context.WithValue(ctx, headersKey{}, answered))
		a.Leader, err = c.Status().LeaderWithQueryOptions(q)
		if status, ok := errors.AsType[*statusError](err); ok && strings.Contains(status.body, "No cluster leader") {
			return nil
		}
		return err
	})
	if err != nil || a.Leader == "" {
		return a, err
	}
	err = s.do(ctx, call{what: "read agent", lane: sessionLane}, func(ctx context.Context, c *api.Client) error {
		var self struct {
			Config      struct{ Version string }
			DebugConfig struct{ HTTPMaxConnsPerClient int }
		}
		var raw json.RawMessage
		if _, err := c.Raw().Query("/v1/agent/self", &raw, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &self); err != nil {
			return fmt.Errorf("understand the answer: %w", err)
		}
		a.Version, a.ConnsPerClient = self.Config.Version, self.DebugConfig.HTTPMaxConnsPerClient
		return nil
	})
	if errors.Is(err, store.ErrDenied) {
		err = nil
	}
	return a, err
}

// headersKey is the context key of a function that gets an answer's headers, which the client does not hand on.
type headersKey struct{}
