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
	Heard          time.Time     // this host's clock when that answer came
	TookHalf       time.Duration // half of how long that answer took
}

// leaderless bounds what is asked of an agent whose servers have no leader: it may wait for one with each answer.
const leaderless = 2 * time.Second

// Agent asks it. That its servers have no leader is no error.
func (s *Store) Agent(ctx context.Context) (Agent, error) {
	var a Agent
	answered := func(h http.Header, took time.Duration) {
		a.Time, _ = http.ParseTime(h.Get("Date")) // an agent behind a proxy may leave it out
		a.Heard, a.TookHalf = time.Now(), took/2
	}
	leader, err := s.Leader(context.WithValue(ctx, headersKey{}, answered))
	if err != nil {
		return a, err
	}
	a.Leader = leader
	self := call{what: "read agent", lane: sessionLane}
	if a.Leader == "" {
		self.limit = leaderless
	}
	err = s.do(ctx, self, func(ctx context.Context, c *api.Client) error {
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
	if errors.Is(err, store.ErrDenied) || a.Leader == "" { // with ACLs it cannot look the token up without a leader
		err = nil
	}
	return a, err
}

// Leader returns the address of the leader of the agent's servers; "" when they have none.
func (s *Store) Leader(ctx context.Context) (leader string, err error) {
	err = s.do(ctx, call{what: "read leader", lane: sessionLane}, func(ctx context.Context, c *api.Client) (err error) {
		leader, err = c.Status().LeaderWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
		if status, ok := errors.AsType[*statusError](err); ok && hasNoLeader(status.body) {
			return nil
		}
		return err
	})
	return leader, err
}

// hasNoLeader reports whether an agent says that its servers have no leader, that it knows no servers now, or that it has sent nothing to the
// one it knows: for some seconds that may be one that has died.
func hasNoLeader(body string) bool {
	return strings.Contains(body, "No cluster leader") || strings.Contains(body, "No known Consul servers") || strings.Contains(body, "rpc error getting client")
}

// headersKey is the context key of a function that gets an answer's headers, which the client does not hand on, and how long
// the answer took.
type headersKey struct{}
