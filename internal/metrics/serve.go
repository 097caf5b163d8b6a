package metrics

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler answers for a node. ready says why it takes no work, nil where it does.
func Handler(s Source, ready func() error) http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(NewCollector(s))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{own, prometheus.DefaultGatherer}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // a collector of the program's that fails must not hide what the node says
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	profiles(mux)
	return mux
}

// fromHere serves callers of this host alone. The Host must be one of this host, too: else a page in a browser here could have a name of its
// own lead here, and read the answer.
func fromHere(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil || !loopback(from) || !loopback(hostOf(r.Host)) {
			http.Error(w, "profiles are for callers on this host, at localhost, 127.0.0.1 or [::1]", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}

func hostOf(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.Trim(hostport, "[]")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Serve serves h at the address until the returned function is called, which waits for nobody. at is where it listens: the port may be 0.
func Serve(addr string, h http.Handler) (at net.Addr, stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("metrics and health at %s: %w: give another address (RAYSYS_HTTP, --http, system.Config.HTTP)", addr, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return l.Addr(), func() { _ = s.Close(); <-done }, nil
}
