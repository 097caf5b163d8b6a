package consul_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

func TestFromEnv(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want consul.Config
		bad  bool
	}{
		"nothing":    {nil, consul.Config{Addresses: []string{consul.DefaultAddress}, Prefix: "raysys/default/"}, false},
		"the usual":  {map[string]string{"CONSUL_HTTP_ADDR": "c:1", "CONSUL_HTTP_TOKEN": "t", "CONSUL_NAMESPACE": "n"}, consul.Config{Addresses: []string{"c:1"}, Prefix: "raysys/default/", Token: "t", Namespace: "n"}, false},
		"own first":  {map[string]string{"CONSUL_HTTP_ADDR": "c:1", "RAYSYS_CONSUL": "a:1, https://b:2", "RAYSYS_CLUSTER": "blue"}, consul.Config{Addresses: []string{"a:1", "https://b:2"}, Prefix: "raysys/blue/"}, false},
		"prefix":     {map[string]string{"RAYSYS_CONSUL_PREFIX": "team/x/"}, consul.Config{Addresses: []string{consul.DefaultAddress}, Prefix: "team/x/"}, false},
		"no slash":   {map[string]string{"RAYSYS_CONSUL_PREFIX": "team"}, consul.Config{}, true},
		"slashes":    {map[string]string{"RAYSYS_CLUSTER": "a/b"}, consul.Config{}, true},
		"no port":    {map[string]string{"RAYSYS_CONSUL": "consul"}, consul.Config{}, true},
		"no scheme":  {map[string]string{"RAYSYS_CONSUL": "unix:///run/consul"}, consul.Config{}, true},
		"a password": {map[string]string{"RAYSYS_CONSUL": "http://u:s3cret@c:1"}, consul.Config{}, true},
		"an odd one": {map[string]string{"RAYSYS_CONSUL": "http://u:s3c%ret@c:1?token=s3cret"}, consul.Config{}, true},
		"no colon":   {map[string]string{"RAYSYS_CONSUL": "u:s3cret@c"}, consul.Config{}, true},
		"no address": {map[string]string{"RAYSYS_CONSUL": " , "}, consul.Config{}, true},
	} {
		got, err := consul.FromEnv(func(k string) string { return c.env[k] })
		if (err != nil) != c.bad || err != nil && strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); !c.bad && d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// Token, namespace and TLS reach the server; a server whose certificate nobody vouches for is not talked to.
func TestTLSAndToken(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.URL.Path+" "+r.Header.Get("X-Consul-Token")+" "+r.URL.Query().Get("ns"))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	cfg := consul.Config{Addresses: []string{server.URL}, Prefix: "raysys/x/", Token: "secret", Namespace: "team", TLS: api.TLSConfig{CAPem: ca}}
	if _, err := open(t, cfg).Get(t.Context(), "config"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0] != "/v1/kv/raysys/x/config secret team" {
		t.Errorf("the server saw %q", seen)
	}
	cfg.TLS = api.TLSConfig{}
	server.Config.ErrorLog = nil
	if _, err := open(t, cfg).Get(t.Context(), "config"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a certificate of an unknown CA: %v", err)
	}
	if len(seen) != 1 {
		t.Errorf("the server saw %q", seen[1:])
	}
}

// Answers that a load balancer, a follower or a full queue gives: what they say about the change counts.
func TestAnswers(t *testing.T) {
	var answer struct {
		sync.Mutex
		code int
		body string
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Lock()
		defer answer.Unlock()
		if answer.code == 0 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		w.WriteHeader(answer.code)
		_, _ = w.Write([]byte(answer.body))
	}))
	defer server.Close()
	kv := open(t, consul.Config{Addresses: []string{server.URL}, Prefix: "raysys/x/"})
	for _, c := range []struct {
		code        int
		body        string
		write, read error
	}{
		{0, "", store.ErrUnknownOutcome, store.ErrUnavailable},
		{200, "not json", store.ErrUnknownOutcome, store.ErrUnavailable},
		{500, "No cluster leader", store.ErrUnavailable, store.ErrUnavailable},
		{500, "rpc error making call: rpc error getting client: failed to get conn: connection refused", store.ErrUnavailable, store.ErrUnavailable},
		{500, "rpc error making call: leadership lost while committing log", store.ErrUnknownOutcome, store.ErrUnavailable},
		{502, "bad gateway", store.ErrUnknownOutcome, store.ErrUnavailable},
		{429, "slow down", store.ErrUnavailable, store.ErrUnavailable},
		{403, "Permission denied", store.ErrDenied, store.ErrDenied},
		{500, "rpc error making call: Permission denied", store.ErrDenied, store.ErrDenied},
		{413, "too large", store.ErrTooLarge, store.ErrTooLarge},
		{400, "what?", store.ErrBadOp, store.ErrBadOp},
		{409, `{"Errors":[{"OpIndex":0,"What":"key exists"}]}`, store.ErrRefused, nil},
		{409, `{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}`, store.ErrDenied, nil},
		{409, `{"Errors":[{"OpIndex":9,"What":"?"}]}`, store.ErrUnknownOutcome, nil},
	} {
		answer.Lock()
		answer.code, answer.body = c.code, c.body
		answer.Unlock()
		_, err := kv.Txn(t.Context(), []store.Op{store.Set("a", nil)})
		if !errors.Is(err, c.write) || c.write == store.ErrUnavailable && errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%d %s: change: %v, want %v", c.code, c.body, err, c.write)
		}
		if c.read == nil {
			continue
		}
		if _, err := kv.Get(t.Context(), "a"); !errors.Is(err, c.read) {
			t.Errorf("%d %s: read: %v, want %v", c.code, c.body, err, c.read)
		}
	}
}
