//go:build unix

package embedded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

func record(i int) shardlog.Batch {
	key := fmt.Sprintf("g/counter/%08d", i%200_000)
	return shardlog.Batch{Puts: []shardlog.Put{{Key: key, Value: []byte(`{"node":"node-1","incarnation":"17","state":"active"}`)}}}
}

func ledShard(b *testing.B, kv store.KV) *shardlog.Shard {
	b.Helper()
	ses, err := kv.NewSession(b.Context(), "bench", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	s, err := shardlog.Lead(b.Context(), shardlog.LeadConfig{KV: kv, Session: ses, Node: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func onBoth(b *testing.B, f func(b *testing.B, dir string)) {
	b.Run("memory", func(b *testing.B) { f(b, "") })
	b.Run("disk", func(b *testing.B) { f(b, b.TempDir()) })
}

// BenchmarkCommit is one caller that waits for each commit of one record.
func BenchmarkCommit(b *testing.B) {
	onBoth(b, func(b *testing.B, dir string) {
		s := ledShard(b, open(b, embedded.Config{Dir: dir}))
		i := 0
		for b.Loop() {
			if _, err := s.Commit(b.Context(), record(i)); err != nil {
				b.Fatal(err)
			}
			i++
		}
		b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "commits/s")
	})
}

// BenchmarkRecords proposes 20,000 at a time to one shard, and says what 200,000 records take.
func BenchmarkRecords(b *testing.B) {
	onBoth(b, func(b *testing.B, dir string) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := ledShard(b, open(b, embedded.Config{Dir: dir}))
		var wg sync.WaitGroup
		room := make(chan struct{}, 20_000)
		i := 0
		for b.Loop() {
			room <- struct{}{}
			wg.Add(1)
			if err := s.Propose(record(i), func(_ shardlog.Result, err error) {
				if err != nil {
					b.Error(err)
				}
				<-room
				wg.Done()
			}); err != nil {
				b.Fatal(err)
			}
			i++
		}
		wg.Wait()
		b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "records/s")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.Len()), "heap-B/record")
		if dir != "" {
			if info, err := os.Stat(filepath.Join(dir, "store.db")); err == nil {
				b.ReportMetric(float64(info.Size())/float64(s.Len()), "disk-B/record")
			}
		}
	})
}

// BenchmarkOpen opens and closes a store of 20,000 keys, and an empty one.
func BenchmarkOpen(b *testing.B) {
	for _, keys := range []int{0, 20_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, embedded.Config{Dir: dir})
			for i := 0; i < keys; i += store.MaxTxnOps {
				var ops []store.Op
				for j := range store.MaxTxnOps {
					ops = append(ops, store.Set(fmt.Sprintf("key/%08d", i+j), make([]byte, 200)))
				}
				if _, err := s.Txn(b.Context(), ops); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s, err := embedded.Open(embedded.Config{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
