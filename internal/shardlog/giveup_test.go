package shardlog_test

import (
	"errors"
	"testing"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
)

// TestGiveUp: a key that is left over goes, also when the first answer is lost; another's stays.
func TestGiveUp(t *testing.T) {
	shared := memory(t)
	kv := flaky.Wrap(shared)
	s, ses := lead(t, shared, "one")
	commit(t, s, shardlog.Batch{Puts: []shardlog.Put{{Key: "a", Value: []byte("1")}}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mine := shardlog.LeadConfig{KV: kv, Shard: 7, Session: ses, Node: "one"}
	other := mine
	other.Session = session(t, shared)
	if err := shardlog.GiveUp(within(t), other); err != nil {
		t.Fatal(err)
	}
	if _, err := shardlog.Lead(within(t), other); !errors.Is(err, shardlog.ErrNotLeader) {
		t.Fatalf("the key is gone: %v", err)
	}
	kv.FailNext(1, flaky.LoseAnswer)
	if err := shardlog.GiveUp(within(t), mine); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	if err := shardlog.GiveUp(within(t), mine); err != nil {
		t.Fatalf("a key that is gone: %v", err)
	}
	next, _ := lead(t, shared, "two")
	want(t, next, "a", "1")
	if err := shardlog.GiveUp(within(t), mine); err != nil {
		t.Fatal(err)
	}
	commit(t, next, shardlog.Batch{Puts: []shardlog.Put{{Key: "a", Value: []byte("2")}}})
}
