package door_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

type plain struct{ n int64 }

func (p *plain) Add(_ context.Context, e entry) (int64, error) { p.n += e.N; return p.n, nil }

var (
	plains   = grains.Define[plain]("door.plain")
	addPlain = grains.Method(plains, "add", (*plain).Add)
)

// benchmark posts to a handler, and reports the CPU of the process for each.
func benchmark(b *testing.B, path string, h func(n *system.Node) http.Handler, headers func(i int, h http.Header)) {
	n, err := system.New(system.Config{})
	if err != nil {
		b.Fatal(err)
	}
	if err := n.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer n.Close(context.Background())
	s := httptest.NewServer(h(n))
	defer s.Close()
	cpu := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	b.ReportAllocs()
	began := cpu()
	for i := 0; b.Loop(); i++ {
		r, _ := http.NewRequest("POST", s.URL+path, strings.NewReader(`{"n":1,"note":"x"}`))
		r.Header.Set("Content-Type", "application/json")
		headers(i, r.Header)
		a, err := s.Client().Do(r)
		if err != nil || a.StatusCode != 200 {
			b.Fatal(a, err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
		a.Body.Close()
	}
	b.ReportMetric(float64(cpu()-began)/float64(b.N), "cpu-ns/op")
}

func byDoor(n *system.Node) http.Handler {
	d, _ := door.New(n, door.Method(add, ""), door.Method(addPlain, ""))
	return d
}

func none(int, http.Header) {}

func BenchmarkDoor(b *testing.B) { benchmark(b, "/call/grain/door.plain/add/alice", byDoor, none) }

// BenchmarkHand is what a program writes without a door.
func BenchmarkHand(b *testing.B) {
	benchmark(b, "/add/alice", func(n *system.Node) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /add/{key}", func(w http.ResponseWriter, r *http.Request) {
			var e entry
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&e); err != nil {
				http.Error(w, err.Error(), 400)
				return
			}
			ctx := n.Context(r.Context())
			sum, err := addPlain.Call(ctx, plains.Get(r.PathValue("key")), e).Get(ctx)
			if err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(sum)
		})
		return mux
	}, none)
}

func key(i int) string { return "/call/grain/door.account/add/" + strconv.Itoa(i%100) }

func BenchmarkUnkeyed(b *testing.B) { benchmark(b, key(1), byDoor, none) }

func BenchmarkKeyed(b *testing.B) {
	benchmark(b, key(1), byDoor, func(i int, h http.Header) { h.Set("Idempotency-Key", strconv.Itoa(i)) })
}
