package shardlog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

func ExampleShard_Commit() {
	ctx := context.Background()
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	session, err := kv.NewSession(ctx, "node-1", time.Minute)
	if err != nil {
		panic(err)
	}
	s, err := shardlog.Lead(ctx, shardlog.LeadConfig{KV: kv, Session: session, Node: "node-1"})
	if err != nil {
		panic(err)
	}
	defer s.Close()

	first, err := s.Commit(ctx, shardlog.Batch{
		Checks: []shardlog.Check{{Key: "s/counter/alice/n"}}, // there must be none
		Puts:   []shardlog.Put{{Key: "s/counter/alice/n", Value: []byte("1")}},
	})
	if err != nil {
		panic(err)
	}
	next := shardlog.Batch{
		Checks: []shardlog.Check{{Key: "s/counter/alice/n", Version: first.Version(0)}},
		Puts:   []shardlog.Put{{Key: "s/counter/alice/n", Value: []byte("2")}},
	}
	_, err = s.Commit(ctx, next)
	fmt.Println(err)
	_, err = s.Commit(ctx, next)
	fmt.Println(errors.Is(err, shardlog.ErrConflict))
	r, _ := s.Get("s/counter/alice/n")
	fmt.Printf("%s\n", r.Value)
	// Output:
	// <nil>
	// true
	// 2
}

func ExampleKV_transaction() {
	ctx := context.Background()
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	_, err = kv.Txn(ctx, []store.Op{store.CheckNotExists("nodes/a"), store.Set("nodes/a", []byte("up"))})
	fmt.Println(err)
	_, err = kv.Txn(ctx, []store.Op{store.CheckNotExists("nodes/a"), store.Set("nodes/a", []byte("again"))})
	fmt.Println(err)
	// Output:
	// <nil>
	// transaction: refused: operation 0, check-not-exists nodes/a: the key exists
}
