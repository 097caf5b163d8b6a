package metrics

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler answers for a node. ready says why it takes no work, nil where it does. failed is told of the first failure of a collector of the
// program's.
func Handler(s Source, ready func() error, failed func(error)) http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(NewCollector(s), &doors)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(&scraper{own: own, program: prometheus.DefaultGatherer, failed: failed}, promhttp.HandlerOpts{}))
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
