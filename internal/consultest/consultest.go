package consultest

import (
	"encoding/json"
	"fmt"
	"net/http"
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
