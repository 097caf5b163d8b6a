package consultest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
)

// Needed says that a test needs a server: with -short, which asks for tests without one, it is skipped.
func Needed(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Consul server: run the tests without -short")
	}
}

// Start runs a server for the test and waits until it serves.
func Start(t testing.TB, o consulserver.Options) *consulserver.Server {
	t.Helper()
	Needed(t)
	s, err := consulserver.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of Consul's log:\n%s", s.Log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// LoseQuorum has a second server join s, which makes a majority of two, and kills it. It returns once s knows no leader;
// with the second server started again there is one.
func LoseQuorum(t testing.TB, s *consulserver.Server) (second *consulserver.Server) {
	t.Helper()
	second = Start(t, consulserver.Options{Join: s})
	await := func(path, what string, times int) {
		t.Helper()
		err := s.Await(t.Context(), func(ctx context.Context) error {
			body, err := s.Call(ctx, http.MethodGet, path, nil)
			if err == nil && strings.Count(string(body), what) != times {
				err = fmt.Errorf("%s: %s", path, body)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	await("/v1/operator/raft/configuration", `"Voter":true`, 2)
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	await("/v1/status/leader", `""`, 1)
	return second
}

// NewToken makes a token with a policy of these rules, in Consul's language.
func NewToken(t testing.TB, s *consulserver.Server, rules string) string {
	t.Helper()
	name := fmt.Sprintf("policy-%d", time.Now().UnixNano())
	_, err := s.Call(t.Context(), http.MethodPut, "/v1/acl/policy", map[string]any{"Name": name, "Rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	body, err := s.Call(t.Context(), http.MethodPut, "/v1/acl/token", map[string]any{"Policies": []any{map[string]any{"Name": name}}})
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ SecretID string }
	if err := json.Unmarshal(body, &token); err != nil || token.SecretID == "" {
		t.Fatalf("new token: %v: %s", err, body)
	}
	return token.SecretID
}
