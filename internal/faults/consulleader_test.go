package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/testkit"
)

// threeConsuls is servers of one cluster. The first is the one that the driver asks.
type threeConsuls struct {
	t      *testing.T
	first  *testkit.ConsulServer
	others [2]*consulserver.Server
}

func newThreeConsuls(t *testing.T) *threeConsuls {
	t.Helper()
	c := &threeConsuls{t: t, first: testkit.Consul(t, testkit.OnDisk())}
	resp, err := http.Get("http://" + c.first.Address() + "/v1/agent/self")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var self struct{ Member struct{ Port int } }
	if err := json.NewDecoder(resp.Body).Decode(&self); err != nil {
		t.Fatal(err)
	}
	for i := range c.others {
		c.others[i] = consultest.Start(t, consulserver.Options{JoinPort: self.Member.Port})
	}
	return c
}

// addresses are those of all servers, another one first for each i.
func (c *threeConsuls) addresses(i int) string {
	list := []string{c.first.Address(), c.others[0].Address(), c.others[1].Address()}
	return strings.Join(append(list[i%3:], list[:i%3]...), ",")
}

// leader waits until three servers vote and one leads that has not this name, and returns its name.
func (c *threeConsuls) leader(not string) (leader string) {
	c.t.Helper()
	testkit.Eventually(c.t, time.Minute, "three Consul servers have a leader", func() bool {
		for _, s := range c.others {
			body, err := s.Call(c.t.Context(), http.MethodGet, "/v1/operator/raft/configuration", nil)
			var raft struct {
				Servers []struct {
					Node          string
					Leader, Voter bool
				}
			}
			if err != nil || json.Unmarshal(body, &raft) != nil {
				continue // it is the one that was killed
			}
			voters := 0
			for _, p := range raft.Servers {
				if p.Voter {
					voters++
				}
				if p.Leader && p.Node != not {
					leader = p.Node
				}
			}
			return voters == 3 && leader != ""
		}
		return false
	})
	return leader
}

// killLeader kills the leader, waits for another one and starts it again.
func (c *threeConsuls) killLeader() {
	c.t.Helper()
	leader := c.leader("")
	kill, start := c.first.Kill, c.first.Start
	for _, s := range c.others {
		if s.Name() == leader {
			must := func(err error) {
				if err != nil {
					c.t.Fatal(err)
				}
			}
			kill, start = func() { must(s.Kill()) }, func() { must(s.Start(c.t.Context())) }
		}
	}
	kill()
	c.leader(leader)
	start()
}

// TestConsulLeaderKilled: the leader of three Consul servers is killed under load. No host is evicted, and no call
// fails.
func TestConsulLeaderKilled(t *testing.T) {
	consul := newThreeConsuls(t)
	p := testkit.Processes(t, 3, testkit.CPU(1), testkit.TTL(silenceTTL), testkit.On(consul.first),
		testkit.EnvOf(func(i int) []string { return []string{"RAYSYS_CONSUL=" + consul.addresses(i)} }))
	ctx, was, s := p.Context(), statusOf(t, p), newSilences(t, p)
	loads := map[string]*load{}
	for what, f := range map[string]func(key string, i int) error{
		"reads of State":        func(key string, i int) error { _, err := read.Call(ctx, counters.Get(key)).Get(ctx); return err },
		"writes of State":       func(key string, i int) error { _, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); return err },
		"calls of plain grains": func(key string, i int) error { _, err := plainAdd.Call(ctx, plains.Get(key), 1).Get(ctx); return err },
		"tasks":                 func(key string, i int) error { n, err := square.Go(ctx, job{N: i}).Get(ctx); return want(n, err, i*i) },
	} {
		loads[what] = startLoad(2, nil, func(_ context.Context, client, i int) error {
			pause(5 * time.Millisecond)
			return f(fmt.Sprint("elected", client, i%10), i)
		})
	}
	kills := times(1, 10)
	for r := range kills {
		s.round(r%3+1, func(string) { consul.killLeader() })
		pause(2 * time.Second)
	}
	calls, gaps := int64(0), ""
	for what, l := range loads {
		l.end()
		l.none(t, what)
		calls += l.calls.Load()
		gaps += fmt.Sprintf(", %s %v", what, l.gap.Round(time.Millisecond))
	}
	for name, now := range statusOf(t, p) {
		if now != was[name] {
			t.Errorf("%s: incarnation %d became %d", name, was[name], now)
		}
	}
	figure(t, "leader of three Consul servers killed %d times: 0 evicted, 0 of %d calls failed; longest time without an answer%s; %d answers, none too old", kills, calls, gaps, s.all)
}
