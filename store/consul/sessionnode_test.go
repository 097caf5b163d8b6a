//go:build unix

package consul_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

// sessionNodes are the nodes of Consul's catalog whose names begin so.
func sessionNodes(t *testing.T, client *api.Client, prefix string) (names []string) {
	t.Helper()
	nodes, _, err := client.Catalog().Nodes(&api.QueryOptions{RequireConsistent: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if strings.HasPrefix(n.Node, prefix) {
			names = append(names, n.Node)
		}
	}
	return names
}

// TestSessionHasItsNode: a session lives on a node of its own, also beside one of the same name, and that goes with it. What a
// session that expired left, two sweeps remove, and nothing else.
func TestSessionHasItsNode(t *testing.T) {
	t.Parallel()
	address := up(t, inMemory).Address()
	client, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	cfg := consul.Config{Addresses: []string{address}, Prefix: prefix()}
	kv, other := open(t, cfg), open(t, cfg)
	const node = "raysys-tests-Sweep.1-"
	make := func(ttl time.Duration) string {
		t.Helper()
		id, err := kv.NewSession(within(t), "raysys tests Sweep.1", ttl)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first, second, short := make(time.Minute), make(time.Minute), make(shortTTL)
	if names := sessionNodes(t, client, node); len(names) != 3 {
		t.Fatalf("three sessions are on %q", names)
	}
	mustTxn(t, kv, store.Lock("held", nil, second), store.Lock("short", nil, short))
	if err := errors.Join(other.Destroy(within(t), first), other.Destroy(within(t), first)); err != nil {
		t.Fatal(err)
	}
	if names := sessionNodes(t, client, node); len(names) != 2 {
		t.Errorf("two sessions are on %q", names)
	}
	_, index, err := kv.List(within(t), "short", store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	if pairs, _, err := kv.Watch(within(t), "short", index); err != nil || len(pairs) != 0 { // it has expired
		t.Fatal(pairs, err)
	}
	for sweep, want := range []int{2, 1, 1} { // at the first an unused node may be one whose session is on its way
		if err := errors.Join(kv.Sweep(within(t)), other.Sweep(within(t))); err != nil {
			t.Fatal(err)
		}
		if names := sessionNodes(t, client, node); len(names) != want {
			t.Errorf("after sweep %d there are %q, want %d", sweep+1, names, want)
		}
	}
	mustTxn(t, kv, store.CheckSession("held", second))
	if kv.OnAgent() != nil {
		t.Error(kv.OnAgent())
	}
	if err := kv.Destroy(within(t), second); err != nil {
		t.Fatal(err)
	}
}

// TestSweepWithoutSessions: Consul leaves out of a list what the token must not read. A sweep that does not see the session of its own
// Store removes no node: each of them may have one.
func TestSweepWithoutSessions(t *testing.T) {
	t.Parallel()
	address := up(t, inMemory).Address()
	client, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	backend := &url.URL{Scheme: "http", Host: address}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/session/list" {
			_, _ = io.WriteString(w, "[]")
			return
		}
		httputil.NewSingleHostReverseProxy(backend).ServeHTTP(w, r)
	}))
	defer front.Close()
	kv := open(t, consul.Config{Addresses: []string{front.URL}, Prefix: prefix()})
	if _, err := kv.NewSession(within(t), "raysys tests Blind", time.Minute); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := kv.Sweep(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if names := sessionNodes(t, client, "raysys-tests-Blind-"); len(names) != 1 {
		t.Errorf("the session is on %q", names)
	}
}

// TestSessionOnTheAgent: a token that must not register nodes gets a session on the agent's, and a reason.
func TestSessionOnTheAgent(t *testing.T) {
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{ACL: true})
	const keys = `key_prefix "raysys/" { policy = "write" } session_prefix "" { policy = "write" }`
	for name, c := range map[string]struct {
		rules string
		falls bool
	}{
		"today's":     {keys, true},
		"nodes alone": {`key_prefix "raysys/" { policy = "write" } node_prefix "raysys-" { policy = "write" } session "raysys" { policy = "write" }`, true},
		"all":         {consul.Policy("raysys/", "raysys"), false},
	} {
		kv := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix(), Token: consultest.NewToken(t, server, c.rules)})
		id, err := kv.NewSession(within(t), "raysys tests "+name, consul.MinTTL)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := kv.OnAgent(); (err != nil) != c.falls || err != nil && !errors.Is(err, store.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(kv.Renew(within(t), id), kv.Destroy(within(t), id)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	client, err := api.NewClient(&api.Config{Address: server.Address(), Token: server.Token()})
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.DeleteFunc(sessionNodes(t, client, ""), func(n string) bool { return n == "raysys" }); len(names) != 0 {
		t.Errorf("it left the nodes %q", names)
	}
}
