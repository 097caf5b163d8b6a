#!/usr/bin/env bash
# github.com/prometheus/client_golang 1.24.1: what becomes of a scrape in which a collector panics after its first metric.
#
# Guess: the process ends; or the family of that collector is left out, and the others are served.
# Seen:  the panic is recovered, and is in the error twice, each time with a stack. promhttp.Handler then answers 500, without any family.
#        ContinueOnError answers 200, with the half of the family that came before the panic: nothing in it shows that the rest is missing.
#
# raysys gathers its own families apart from those of the program, and shows raysys_collector_failed: internal/metrics/scrape.go.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.25

require github.com/prometheus/client_golang v1.24.1

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// half has two metrics, and panics after the first.
type half struct{ desc *prometheus.Desc }

func (h half) Describe(to chan<- *prometheus.Desc) { to <- h.desc }

func (h half) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(h.desc, prometheus.GaugeValue, 1, "sda")
	panic("no sdb")
}

func main() {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "up", Help: "."}))
	reg.MustRegister(half{prometheus.NewDesc("disk", ".", []string{"name"}, nil)})
	_, err := reg.Gather()
	fmt.Println("one panic is in the error", strings.Count(err.Error(), "no sdb"), "times, each time with a stack")
	for _, way := range []struct {
		name     string
		handling promhttp.HandlerErrorHandling
	}{{"HTTPErrorOnError, the default", promhttp.HTTPErrorOnError}, {"ContinueOnError", promhttp.ContinueOnError}} {
		h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: way.handling, ErrorLog: log.New(io.Discard, "", 0)})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		var served []string
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "up ") || strings.HasPrefix(line, "disk{") {
				served = append(served, strings.TrimSpace(line))
			}
		}
		fmt.Printf("%s: %d %q\n", way.name, w.Code, served)
	}
}
END
cat >want <<'END'
one panic is in the error 2 times, each time with a stack
HTTPErrorOnError, the default: 500 []
ContinueOnError: 200 ["disk{name=\"sda\"} 1" "up 0"]
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
