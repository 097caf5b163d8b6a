package consul_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

func ledShard(b *testing.B, kv store.KV, shard int) *shardlog.Shard {
	b.Helper()
	ses, err := kv.NewSession(b.Context(), "bench", 30*time.Second)
	if err != nil {
		b.Fatal(err)
	}
	s, err := shardlog.Lead(b.Context(), shardlog.LeadConfig{KV: kv, Shard: shard, Session: ses, Node: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func bench(b *testing.B) *consul.Store {
	b.Helper()
	server := consultest.Start(b, consulserver.Options{Disk: true})
	kv, err := consul.Open(consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = kv.Close() })
	return kv
}

func record(i int) shardlog.Batch {
	key := fmt.Sprintf("g/counter/%08d", i%200_000)
	return shardlog.Batch{Puts: []shardlog.Put{{Key: key, Value: []byte(`{"node":"node-1","incarnation":"17","state":"active"}`)}}}
}

// BenchmarkCommit is one caller that waits for each commit of one record, on a server on disk.
func BenchmarkCommit(b *testing.B) {
	s := ledShard(b, bench(b), 0)
	var times []time.Duration
	i := 0
	for b.Loop() {
		start := time.Now()
		if _, err := s.Commit(b.Context(), record(i)); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
		i++
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkAppend is the raw limit under it: the same transactions, without a shard.
func BenchmarkAppend(b *testing.B) {
	kv := bench(b)
	ses, err := kv.NewSession(b.Context(), "bench", 30*time.Second)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := kv.Txn(b.Context(), []store.Op{store.Lock("leaders/00", nil, ses)}); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 150)
	i := 0
	for b.Loop() {
		key := fmt.Sprintf("log/00/%016x", i)
		if _, err := kv.Txn(b.Context(), []store.Op{store.CheckSession("leaders/00", ses), store.CheckNotExists(key), store.Set(key, value)}); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkRecords proposes as fast as the queues take it, over 1 and 32 shards: what group commit makes of it.
func BenchmarkRecords(b *testing.B) {
	for _, shards := range []int{1, 32} {
		b.Run(fmt.Sprint("shards=", shards), func(b *testing.B) {
			kv := bench(b)
			var led []*shardlog.Shard
			for i := range shards {
				led = append(led, ledShard(b, kv, i))
			}
			var wg sync.WaitGroup
			var failed atomic.Int64
			room := make(chan struct{}, 20_000)
			i := 0
			for b.Loop() {
				room <- struct{}{}
				wg.Add(1)
				err := led[i%shards].Propose(record(i), func(_ shardlog.Result, err error) {
					if err != nil {
						failed.Add(1)
					}
					<-room
					wg.Done()
				})
				if err != nil {
					b.Fatal(err)
				}
				i++
			}
			wg.Wait()
			if failed.Load() > 0 {
				b.Fatalf("%d proposals failed", failed.Load())
			}
			commits := uint64(0)
			for _, s := range led {
				commits += s.Stats().Commits
			}
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(i)/float64(commits), "records/commit")
		})
	}
}

// BenchmarkRenew is the renewals of 1,000 sessions by callers enough to keep the server busy, each with connections of its own: what a
// cluster of so many nodes asks of it three times within a lease. server-us is the server's processor time for one.
func BenchmarkRenew(b *testing.B) {
	const sessions, callers = 1000, 16
	server := consultest.Start(b, consulserver.Options{Disk: true})
	var ids [sessions]string
	var stores [callers]*consul.Store
	for i := range stores {
		var err error
		if stores[i], err = consul.Open(consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = stores[i].Close() })
	}
	for i := range ids {
		var err error
		if ids[i], err = stores[0].NewSession(b.Context(), "bench", 30*time.Second); err != nil {
			b.Fatal(err)
		}
	}
	before := worked(server.PID())
	var next atomic.Int64
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		s := stores[next.Add(1)%callers]
		for pb.Next() {
			if err := s.Renew(b.Context(), ids[next.Add(1)%sessions]); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renewals/s")
	b.ReportMetric(float64((worked(server.PID())-before).Microseconds())/float64(b.N), "server-us")
}

// worked is the processor time that a process has had, 0 where the system does not tell it in Linux' way.
func worked(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the state on, the third of proc_pid_stat(5)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(words[11])
	kernel, _ := strconv.Atoi(words[12])
	return time.Duration(user+kernel) * 10 * time.Millisecond
}
