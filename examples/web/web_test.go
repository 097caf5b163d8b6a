package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

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

func TestHandlers(t *testing.T) {
	k := testkit.New(t)
	srv := httptest.NewServer(handler(k.Node()))
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
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
		if code, body := get(t, srv.URL+c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
}

// A client hears what to do, and nothing of the nodes.
func TestShortErrors(t *testing.T) {
	k := testkit.New(t)
	srv := httptest.NewServer(handler(k.Node()))
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if err := k.Node().Close(k.Context()); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, srv.URL+"/visits/alice"); code != http.StatusServiceUnavailable || body != "Service Unavailable\n" {
		t.Errorf("%d %q", code, body)
	}
}

// Visits are counted one at a time, however many come at once.
func TestConcurrentVisits(t *testing.T) {
	k := testkit.New(t)
	srv := httptest.NewServer(handler(k.Node()))
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { get(t, srv.URL+"/visits/carol") })
	}
	wg.Wait()
	if _, body := get(t, srv.URL+"/visits/carol"); body != "51\n" {
		t.Errorf("after 50 visits: %q, want 51", body)
	}
}

func TestRunServesAndStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addr := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() { done <- run(ctx, "127.0.0.1:0", func(a net.Addr) { addr <- a }) }()
	if _, body := get(t, fmt.Sprintf("http://%s/primes?below=10", <-addr)); body != "4\n" {
		t.Errorf("primes below 10: %q", body)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := run(context.Background(), "nowhere:-1", nil); err == nil {
		t.Error("a bad address was accepted")
	}
}
