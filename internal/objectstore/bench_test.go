package objectstore_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/objectstore"
)

const (
	benchSize = 64 * mib
	gib       = 1 << 30
)

func benchStore(b *testing.B, c objectstore.Config) *objectstore.Store {
	b.Helper()
	c.Disk = 1 << 40
	c.Dir = b.TempDir()
	s, err := objectstore.Open(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkAdd is a Put of a value of 1 MiB that fits: nothing is copied.
func BenchmarkAdd(b *testing.B) {
	s := benchStore(b, objectstore.Config{Budget: gib})
	v := newValue(content(1, mib))
	b.ReportAllocs()
	for b.Loop() {
		o, err := s.Add(context.Background(), id(1), 1, v)
		if err != nil {
			b.Fatal(err)
		}
		o.Release()
	}
}

// BenchmarkChecksum is the raw limit of everything that is verified.
func BenchmarkChecksum(b *testing.B) {
	data := content(1, benchSize)
	b.Run("crc32c", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			objectstore.Checksum(data)
		}
	})
	b.Run("limit_memcpy_warm", func(b *testing.B) {
		b.SetBytes(benchSize)
		to := make([]byte, benchSize)
		for b.Loop() {
			copy(to, data)
		}
	})
}

// BenchmarkDisk spills and restores 64 MiB, beside plain file I/O of the same size. The page cache serves both.
func BenchmarkDisk(b *testing.B) {
	data := content(1, benchSize)
	b.Run("spill", func(b *testing.B) {
		s := benchStore(b, objectstore.Config{Budget: gib})
		b.SetBytes(benchSize)
		for b.Loop() {
			o := add(b, s, 1, newValue(data))
			if err := objectstore.Spill(o); err != nil {
				b.Fatal(err)
			}
			o.Release()
		}
	})
	b.Run("limit_write_file", func(b *testing.B) {
		name := b.TempDir() + "/raw"
		b.SetBytes(benchSize)
		for b.Loop() {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				b.Fatal(err)
			}
			if err := os.Remove(name); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("restore", func(b *testing.B) {
		s := benchStore(b, objectstore.Config{Budget: gib})
		o := add(b, s, 1, newValue(data))
		if err := objectstore.Spill(o); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(benchSize)
		for b.Loop() {
			if _, err := o.Bytes(context.Background()); err != nil {
				b.Fatal(err)
			}
			objectstore.Thin(o)
		}
	})
	b.Run("limit_read_file", func(b *testing.B) {
		name := b.TempDir() + "/raw"
		if err := os.WriteFile(name, data, 0o600); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(benchSize)
		for b.Loop() {
			if _, err := os.ReadFile(name); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReceive copies and verifies 64 MiB chunk by chunk, as a connection would, into memory of each kind.
func BenchmarkReceive(b *testing.B) {
	data := content(1, benchSize)
	v := version(1, data)
	run := func(name string, form objectstore.Form, warm int64) {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b, objectstore.Config{Budget: gib, Warm: warm})
			b.SetBytes(benchSize)
			for b.Loop() {
				in, err := s.Receive(context.Background(), v, form)
				if err != nil {
					b.Fatal(err)
				}
				fill(b, in, data)
				in.Object().Release()
			}
		})
	}
	run("segment_warm", objectstore.Segment, 2*benchSize)
	run("segment_fresh", objectstore.Segment, -1)
	run("heap", objectstore.Heap, 0)
	run("disk", objectstore.Disk, 0)
}

// BenchmarkView1GiB is what another process of the host waits for before it can touch 1 GiB, and the first touch apart.
func BenchmarkView1GiB(b *testing.B) {
	owner := benchStore(b, objectstore.Config{Budget: 3 * gib})
	seed := content(1, mib)
	in, err := owner.Receive(context.Background(), repeated(gib/mib), objectstore.Segment)
	if err != nil {
		b.Fatal(err)
	}
	sum := objectstore.Checksum(seed)
	for _, i := range in.Missing() {
		copy(in.Buffer(i), seed)
		if err := in.Filled(i, sum); err != nil {
			b.Fatal(err)
		}
	}
	o := in.Object()
	viewer := benchStore(b, objectstore.Config{Budget: gib})
	var before, touch, again time.Duration
	for b.Loop() {
		at := time.Now()
		shared, err := o.Share(context.Background())
		if err != nil {
			b.Skip(err)
		}
		a, err := viewer.Attach(context.Background(), shared, versionOf(b, o))
		if err != nil {
			b.Fatal(err)
		}
		p, err := a.Map(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		before += time.Since(at)
		for _, d := range []*time.Duration{&touch, &again} {
			at = time.Now()
			pages(p.Bytes())
			*d += time.Since(at)
		}
		p.Close()
		a.Release()
	}
	n := float64(b.N) * 1e6
	b.ReportMetric(float64(before)/n, "ms-before-first-touch")
	b.ReportMetric(float64(touch)/n, "ms-first-touch")
	b.ReportMetric(float64(again)/n, "ms-second-touch")
	o.Release()
}

// repeated is the version of n chunks.
func repeated(n int) objectstore.Version {
	return objectstore.Version{ID: id(1), Attempt: 1, Size: int64(n) * mib, Nonce: 1}
}

// pages reads a byte of every page.
func pages(b []byte) (sum byte) {
	for i := 0; i < len(b); i += 4096 {
		sum += b[i]
	}
	return sum
}

// BenchmarkLargerThanBudget receives an object of 5 times the budget, maps it and reads all of it. RAYSYS_BENCH_GIB gives the
// budget; 1 takes 5 GiB of disk.
func BenchmarkLargerThanBudget(b *testing.B) {
	budget, _ := strconv.ParseFloat(os.Getenv("RAYSYS_BENCH_GIB"), 64)
	if budget == 0 {
		budget = 1.0 / 16
	}
	size := int64(5 * budget * gib / mib)
	s := benchStore(b, objectstore.Config{Budget: int64(budget * gib)})
	seed := content(1, mib)
	v, sum := repeated(int(size)), objectstore.Checksum(seed)
	b.SetBytes(v.Size)
	for b.Loop() {
		in, err := s.Receive(context.Background(), v, objectstore.Segment)
		if err != nil {
			b.Fatal(err)
		}
		var peak int64
		for _, i := range in.Missing() {
			copy(in.Buffer(i), seed)
			peak = max(peak, s.Stats().Used)
			if err := in.Filled(i, sum); err != nil {
				b.Fatal(err)
			}
		}
		p, err := in.Object().Map(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for _, got := range objectstore.SumsOf(p.Bytes()) {
			if got != sum {
				b.Fatal("wrong bytes")
			}
		}
		p.Close()
		in.Object().Release()
		b.ReportMetric(float64(peak)/mib, "MiB-of-memory")
	}
}
