package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

// catalogNodes are the names in Consul's catalog.
func catalogNodes(t *testing.T, s *consulserver.Server) (names []string) {
	t.Helper()
	body, err := s.Call(t.Context(), http.MethodGet, "/v1/catalog/nodes?consistent", nil)
	var nodes []struct{ Node string }
	if err = errors.Join(err, json.Unmarshal(body, &nodes)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		names = append(names, n.Node)
	}
	return names
}

// TestConsulAgentStops: an agent that is no server and stops in good order leaves Consul's catalog. The members that use it
// stay who they are, also when Consul is restored meanwhile and when its servers lose their majority. Who leaves, leaves
// nothing in the catalog.
func TestConsulAgentStops(t *testing.T) {
	onConsul(t, consulserver.Options{Disk: true}, func(s *consulserver.Server, c *cluster) {
		agent := consultest.Start(t, consulserver.Options{Client: true, Join: s})
		direct := c.open
		c.open = func() store.KV {
			kv, err := consul.Open(consul.Config{Addresses: []string{agent.Address()}, Prefix: "raysys/test/"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = kv.Close() })
			return kv
		}
		c.ttl = 10 * time.Second // so that the agent is back within a lease
		c.join("a", "b")
		c.open = direct
		c.join("c")
		c.eventually("all seen", patience, c.sees("c", "a", "b", "c"))
		was := []uint64{c.member("a").Incarnation(), c.member("b").Incarnation()}
		same := func(after string) {
			t.Helper()
			for i, name := range []string{"a", "b"} {
				m := c.member(name)
				m.Recheck()
				c.eventually(name+" is active after "+after, patience, func() bool { return m.State() == member.Active || m.State() == member.Fenced })
				if m.State() != member.Active || m.Incarnation() != was[i] {
					t.Fatalf("after %s: %s is %v: %v", after, name, m.State(), m.Err())
				}
			}
			c.eventually("all seen after "+after, patience, c.sees("c", "a", "b", "c"))
		}

		name := agent.Name()
		if err := agent.Stop(); err != nil {
			t.Fatal(err)
		}
		// The servers do it by themselves within a second, but for an agent that has just joined within a minute.
		if _, err := s.Call(t.Context(), http.MethodPut, "/v1/catalog/deregister", map[string]string{"Node": name}); err != nil {
			t.Fatal(err)
		}
		if names := catalogNodes(t, s); slices.Contains(names, name) {
			t.Fatalf("the catalog has %q", names)
		}
		if err := agent.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		same("the agent's restart")

		snapshot, err := s.Call(t.Context(), http.MethodGet, "/v1/snapshot", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Call(t.Context(), http.MethodPut, "/v1/snapshot", snapshot); err != nil {
			t.Fatal(err)
		}
		same("a restore")

		second := consultest.LoseQuorum(t, s)
		if err := second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		same("a lost majority")

		c.tell([]string{"leave", "a"})
		c.tell([]string{"leave", "b"})
		c.eventually("a and b left", patience, c.sees("c", "c"))
		left := slices.DeleteFunc(catalogNodes(t, s), func(n string) bool { return !strings.HasPrefix(n, "raysys-test-") })
		if len(left) != 1 || !strings.HasPrefix(left[0], "raysys-test-c-") {
			t.Errorf("of the members that left and of c the catalog has %q", left)
		}
	})
}

// TestSweep: one member sweeps, every ten minutes; what fails does not end its other duties.
func TestSweep(t *testing.T) {
	virtual(t, func(c *cluster) {
		swept := map[string]int{}
		for _, name := range []string{"a", "b"} {
			c.joinAs(name, func(cfg *member.Config) {
				cfg.Sweep = func(context.Context) error {
					c.mu.Lock()
					defer c.mu.Unlock()
					swept[name]++
					return store.ErrUnavailable
				}
			})
		}
		c.set("evict/17", "{}")
		c.pass(75 * time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if swept["a"] != 8 || swept["b"] != 0 {
			t.Errorf("within 75 minutes the members swept so often: %v", swept)
		}
		if left := c.keys("evict/"); len(left) != 0 {
			t.Errorf("the votes %q are still there", left)
		}
	})
}

// TestWhyFenced: the error of a member whose session is gone tells an expired session from one that was ended.
func TestWhyFenced(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		if err := c.kv.Destroy(t.Context(), c.member("a").Session()); err != nil {
			t.Fatal(err)
		}
		c.pass(ttl)
		if err := c.member("a").Err(); !errors.Is(err, raysys.ErrFenced) || !strings.Contains(err.Error(), "did not end it") {
			t.Errorf("a session that was ended: %v", err)
		}
	})
}
