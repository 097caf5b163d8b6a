package metrics

import (
	"fmt"
	"net"
	"net/http"
	"strings"

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
		if err != nil || !Loopback(from) || !Loopback(HostOf(r.Host)) {
			http.Error(w, "profiles are for callers on this host, at localhost, 127.0.0.1 or [::1]", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}

// HostOf is the host of HOST:PORT, or of HOST alone, as a request has it.
func HostOf(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.Trim(hostport, "[]")
}

// Loopback reports whether a host is the one that asks.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
