package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/doctor"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// sick is a store in which one verb fails, or sessions leave their keys behind.
type sick struct {
	store.KV
	fails     string
	destroyed int
}

var errSick = errors.New("permission denied")

func (s *sick) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	if s.fails == "session" {
		return "", errSick
	}
	return s.KV.NewSession(ctx, name, ttl)
}

func (s *sick) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	switch s.fails {
	case "hold":
		return nil, errSick
	case "steal": // the key is there, and nobody holds it
		return s.KV.Txn(ctx, []store.Op{store.Set(ops[0].Key, ops[0].Value)})
	}
	return s.KV.Txn(ctx, ops)
}

func (s *sick) Get(ctx context.Context, key string) (store.Pair, error) {
	if s.fails == "read" {
		return store.Pair{}, errSick
	}
	return s.KV.Get(ctx, key)
}

func (s *sick) Destroy(ctx context.Context, session string) error {
	s.destroyed++
	switch s.fails {
	case "destroy":
		return errSick
	case "leave":
		return nil
	}
	return s.KV.Destroy(ctx, session)
}

func TestTryWrite(t *testing.T) {
	for fails, text := range map[string]string{
		"":        "",
		"session": "make a session: permission denied",
		"hold":    "hold doctor/",
		"steal":   `session "" holds it`,
		"read":    "read doctor/",
		"destroy": "destroy the session: permission denied",
		"leave":   "outlived its session",
	} {
		kv, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := &sick{KV: kv, fails: fails}
		err = doctor.TryWrite(t.Context(), s, "default")
		if (err == nil) != (fails == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %s", fails, err, text)
		}
		if want := 1; fails != "session" && s.destroyed != want {
			t.Errorf("%q: the session was destroyed %d times", fails, s.destroyed)
		}
		left, err := kv.Keys(t.Context(), "")
		if fails == "" && (len(left) != 0 || err != nil) {
			t.Errorf("it left %q, %v", left, err)
		}
		if err := kv.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
