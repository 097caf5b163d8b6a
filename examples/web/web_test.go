package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// serve serves on a node of the test's own until the test ends, and returns its URL. around is around the handler.
func serve(t *testing.T, tokens string, around func(http.Handler) http.Handler) string {
	t.Helper()
	k := testkit.New(t)
	h, err := handler(k.Node(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(k.Context())
	served := make(chan error, 1)
	go func() { served <- system.ServeListener(ctx, l, around(h)) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestHandlers(t *testing.T) {
	url := serve(t, "", plain)
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/primes?below=100000", 200, "9592\n"},
		{"/primes?below=0", 200, "0\n"},
		{"/primes?below=x", 400, "below: give a number from 0 to 5000000\n"},
		{"/primes?below=5000001", 400, "below: give a number from 0 to 5000000\n"},
		{"/visits/alice", 200, "1\n"},
		{"/visits/alice", 200, "2\n"},
		{"/visits/bob", 200, "1\n"},
	} {
		if code, body := get(t, url+c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
}

// A client hears what to do, and nothing of the nodes.
func TestShortErrors(t *testing.T) {
	for code, err := range map[int]error{
		http.StatusServiceUnavailable:  raysys.ErrClosed,
		http.StatusGatewayTimeout:      fmt.Errorf("visitor/alice on n1: %w", raysys.ErrDeadline),
		http.StatusInternalServerError: errors.New("n1 has a bad disk"),
	} {
		w := httptest.NewRecorder()
		fail(w, err)
		if w.Code != code || w.Body.String() != http.StatusText(code)+"\n" {
			t.Errorf("%v: %d %q, want %d", err, w.Code, w.Body, code)
		}
	}
}

// Visits are counted one at a time, however many come at once.
func TestConcurrentVisits(t *testing.T) {
	url := serve(t, "", plain)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { get(t, url+"/visits/carol") })
	}
	wg.Wait()
	if _, body := get(t, url+"/visits/carol"); body != "51\n" {
		t.Errorf("after 50 visits: %q, want 51", body)
	}
}

// plain has nothing around a handler.
func plain(h http.Handler) http.Handler { return h }

// losesAnswers breaks the connection of each first call with a key, after that has counted.
func losesAnswers(h http.Handler) http.Handler {
	var seen sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			if _, again := seen.LoadOrStore(key, true); !again {
				h.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
		}
		h.ServeHTTP(w, r)
	})
}

// TestCallers: programs in other languages count a visit once, though its first answer is lost.
func TestCallers(t *testing.T) {
	const token = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("somebody "+token), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"python3", "callers/visits.py"}, {"node", "callers/visits.js"}} {
		t.Run(c[0], func(t *testing.T) {
			program, err := exec.LookPath(c[0])
			if err != nil {
				t.Skip(err)
			}
			url := serve(t, file, losesAnswers)
			for visits := range 2 {
				out, err := exec.CommandContext(t.Context(), program, c[1], url, "alice/ü", token).CombinedOutput()
				if !strings.HasSuffix(string(out), fmt.Sprintln(visits+1)) || err != nil {
					t.Errorf("%v %s", err, out)
				}
			}
			out, err := exec.CommandContext(t.Context(), program, c[1], url, "alice").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "raysys:unauthorized") {
				t.Errorf("without a token: %v %s", err, out)
			}
			if code, body := get(t, url+"/visits/alice%2F%C3%BC"); code != 200 || body != "3\n" {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

// TestTokens: a file of tokens that is none is an error.
func TestTokens(t *testing.T) {
	if _, err := handler(testkit.New(t).Node(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
