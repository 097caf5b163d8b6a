package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// keyspace opens the keys of a cluster on the test's Consul.
func keyspace(t *testing.T, server *testkit.ConsulServer, cluster string) store.KV {
	t.Helper()
	kv, err := consul.Open(consul.Config{Addresses: []string{server.Address()}, Prefix: "raysys/" + cluster + "/", Token: server.Token()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kv.Close() })
	return kv
}

// age gives every shard of a cluster that has not begun a past of that many commits, each a segment of its own, as one
// write after the other to a State makes them. The cluster has that many shards, 0 for as many as usual.
func age(t *testing.T, kv store.KV, shards, commits int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	conf, err := shardlog.OpenLayout(ctx, kv, "", shards)
	if err != nil {
		t.Fatal(err)
	}
	session, err := kv.NewSession(ctx, "past", consul.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	var renewing, writing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(consul.MinTTL / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := kv.Renew(ctx, session); errors.Is(err, store.ErrSessionGone) {
					cancel(err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	value := []byte(strings.Repeat("x", 64))
	for n := range conf.Shards {
		writing.Go(func() {
			s, err := shardlog.Lead(ctx, shardlog.LeadConfig{KV: kv, Shard: n, Session: session, Node: "past"})
			for i := 0; i < commits && err == nil; i++ {
				_, err = s.Commit(ctx, shardlog.Batch{Puts: []shardlog.Put{{Key: fmt.Sprint("s/past\x00", i%100), Value: value}}})
			}
			if err == nil {
				err = s.Release(ctx)
			}
			if err != nil {
				cancel(fmt.Errorf("age shard %d: %w", n, err))
			}
		})
	}
	writing.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
	cancel(nil)
	renewing.Wait()
	if err := kv.Destroy(context.Background(), session); err != nil {
		t.Fatal(err)
	}
}

// segmentsToReplay counts the keys of each shard's log, which its next leader has to read. It returns the most.
func segmentsToReplay(t *testing.T, kv store.KV) (most int) {
	t.Helper()
	keys, err := kv.Keys(t.Context(), "log/")
	if err != nil {
		t.Fatal(err)
	}
	shards := map[string]int{}
	for _, k := range keys {
		shards[k[:strings.LastIndexByte(k, '/')]]++
	}
	for _, n := range shards {
		most = max(most, n)
	}
	return most
}

// TestFailoverOfAnAgedCluster: how long a cluster has been written to does not show when a host dies, since the log
// that the next leaders replay is short whatever the past.
func TestFailoverOfAnAgedCluster(t *testing.T) {
	long.Only(t)
	shards, commits := 4, 100_000 // each commit is a transaction of Consul: with all shards it would take an hour
	server := testkit.Consul(t, onDisk()...)
	kv := keyspace(t, server, "aged")
	age(t, kv, shards, commits)
	p := testkit.Processes(t, 3, testkit.CPU(1), testkit.TTL(10*time.Second), testkit.On(server),
		testkit.Config(system.Config{Cluster: &system.ClusterConfig{Name: "aged"}}))
	ctx := p.Context()
	const keys = 40
	for i := range keys {
		if v, err := add.Call(ctx, counters.Get(fmt.Sprint(i)), 7).Get(ctx); v != 7 || err != nil {
			t.Fatal(v, err)
		}
	}
	most := 0
	testkit.Eventually(t, 30*time.Second, "at most 256 segments of any shard are to be replayed", func() bool {
		most = segmentsToReplay(t, kv)
		return most <= 256
	})
	var each, all spread
	for i := range 30 {
		victim := procOf(t, p, fmt.Sprint(i))
		victim.Kill()
		took := make([]time.Duration, keys)
		var asking sync.WaitGroup
		for k := range keys {
			asking.Go(func() { took[k] = answersIn(ctx, t, fmt.Sprint(k), 7) })
		}
		asking.Wait()
		each, all = append(each, took...), append(all, slices.Max(took))
		victim.Restart()
		p.Ready()
	}
	slices.Sort(each)
	p99 := each[len(each)*99/100]
	figure(t, "%d State grains after SIGKILL of a host, %d commits to each of its shards before that, at most %d segments to replay: p99 of each %v; all of them %v (promised: p99 1 s)",
		keys, commits, most, p99.Round(time.Millisecond), all)
	if limit := time.Second; p99 > limit { // the lease: without a proof of death the host would be there as long
		t.Errorf("failover grows with the age of the log: of 100 grains 99 were back after %v, want %v", p99, limit)
	}
}

// answersIn is firstGood for use beside others.
func answersIn(ctx context.Context, t *testing.T, key string, want int) time.Duration {
	from := time.Now()
	try := read.With(raysys.Deadline(250 * time.Millisecond))
	for {
		n, err := try.Call(ctx, counters.Get(key)).Get(ctx)
		took := time.Since(from)
		if err == nil && n != want {
			t.Errorf("the counter says %d, want %d: something acknowledged was lost, or something was done twice", n, want)
		}
		if err == nil || took > time.Minute {
			return took
		}
	}
}
