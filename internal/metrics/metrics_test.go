package metrics

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/raysys/raysys/internal/tally"
)

// full is a Sample with each family, and more functions and kinds than a label may have names.
func full() (Sample, error) {
	s := Sample{
		Grains: map[string]int{}, Mailboxes: map[string]int{"k": 3}, Late: map[string]int{"k0007": 2}, EarlyKeys: map[string]int{"k": 1024}, Outbox: map[string]int{"k": 7}, VainSends: map[string]int{"k": 31}, Resources: []Resource{{"CPU", 8, 2}},
		Devices: []Device{{ID: "gpu-0", Held: 0.5, Sick: true, Utilization: 0.25, UsedBytes: 1 << 30}, {ID: "gpu-1", Utilization: -1, UsedBytes: -1}},
		Memory:  Memory{8 << 30, 6 << 30, 40, 3}, Links: 4, Relayed: 1, Shards: 3, Store: map[string]Store{"put": {7, 0.5, 2}}, LeaseLeft: 9.5, Evictions: map[string]uint64{"fast": 1}, Certificates: map[string]float64{"node": 3600, "ca": -5}, Clustered: true,
		Balances: true, GrainLoad: 0.25, GrainMean: 0.125, GrainsMoved: 83,
	}
	var n tally.Tally
	for i := range MaxNames + 50 {
		f := n.Function(tally.TaskKind, fmt.Sprintf("f%04d", i))
		f.Ended(tally.OK, 2)
		f.Took(int64(3*time.Millisecond), 2)
		s.Grains[fmt.Sprintf("k%04d", i)] = 1
	}
	n.Function(tally.CallKind, "k.m").Ended(tally.Panic, 1)
	n.Function(tally.CallKind, "k.m").Waited(int64(3*time.Second), 1)
	s.Tasks, s.Calls = n.Rows(tally.TaskKind), n.Rows(tally.CallKind)
	return s, nil
}

func get(t *testing.T, h http.Handler, path, from, host string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = from, host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

// TestMetrics: all families are there, promlint has nothing to say, no label is one that Prometheus sets, and names are bounded without a
// count being lost.
func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(full))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(all) {
		t.Errorf("%d families of %d", len(families), len(all))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "job" || l.GetName() == "instance" {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
	_, body := get(t, Handler(full, nil, nil), "/metrics", "192.0.2.1:1", "node:9100")
	for _, want := range []string{
		`raysys_runs_total{function="f0000",kind="task",outcome="ok"} 2`, `raysys_runs_total{function="other",kind="task",outcome="ok"} 102`,
		`raysys_runs_total{function="k.m",kind="call",outcome="panic"} 1`, `raysys_run_seconds_bucket{function="f0000",kind="task",le="0.001"} 0`,
		`raysys_run_seconds_bucket{function="f0000",kind="task",le="0.005"} 2`, `raysys_run_seconds_sum{function="f0000",kind="task"} 0.006`,
		`raysys_wait_seconds_bucket{function="k.m",kind="call",le="1"} 0`, `raysys_wait_seconds_bucket{function="k.m",kind="call",le="5"} 1`,
		`raysys_grains{kind="other"} 51`, `raysys_memory_limit_bytes 8.589934592e+09`, `raysys_memory_used_bytes 6.442450944e+09`, `raysys_grains_unloaded_total 40`, `raysys_grains_refused_total 3`, `raysys_late_turns{kind="k0007"} 2`, `raysys_late_turns{kind="other"} 0`, `raysys_keys_forgotten_total{kind="k"} 1024`, `raysys_outbox_messages{kind="k"} 7`, `raysys_outbox_failures_total{kind="k"} 31`, `raysys_links{way="relayed"} 1`, `raysys_store_seconds_count{operation="put"} 7`, `raysys_up 1`, `raysys_certificate_left_seconds{of="ca"} -5`, "go_goroutines ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no line %s", want)
		}
	}
	if n := strings.Count(body, `raysys_running{`); n != MaxNames+1 {
		t.Errorf("%d functions are shown", n)
	}
}

// TestSourceFails: a source that fails or panics costs its families and nothing else.
func TestSourceFails(t *testing.T) {
	for name, s := range map[string]Source{
		"error": func() (Sample, error) { return Sample{}, errors.New("closed") },
		"panic": func() (Sample, error) { panic("a mistake") },
	} {
		code, body := get(t, Handler(s, nil, nil), "/metrics", "192.0.2.1:1", "node")
		if code != http.StatusOK || !strings.Contains(body, "raysys_up 0\n") || !strings.Contains(body, "go_goroutines ") {
			t.Errorf("%s: %d\n%s", name, code, body)
		}
	}
}

// TestHealth: a node is healthy while it serves, and ready while it takes work.
func TestHealth(t *testing.T) {
	var why error
	h := Handler(full, func() error { return why }, nil)
	ask := func(path, from, host string, code int, says string) {
		t.Helper()
		if got, body := get(t, h, path, from, host); got != code || !strings.Contains(body, says) {
			t.Errorf("%s from %s at %s: %d %q; want %d %q", path, from, host, got, body, code, says)
		}
	}
	ask("/healthz", "192.0.2.1:1", "node", 200, "ok")
	ask("/readyz", "192.0.2.1:1", "node", 200, "ok")
	why = errors.New("it drains")
	ask("/readyz", "192.0.2.1:1", "node", 503, "it drains")
	ask("/healthz", "192.0.2.1:1", "node", 200, "ok")
	ask("/debug/pprof/", "127.0.0.1:5", "localhost:1", 200, "goroutine?debug=1")
}

// TestProfiles: what go tool pprof and go tool trace ask for, and what cannot be meant. The mux of a program has none of it.
func TestProfiles(t *testing.T) {
	h := Handler(full, nil, nil)
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"goroutine?debug=1": {200, "goroutine profile: total"}, "heap?gc=1": {200, "\x1f\x8b"}, "profile?seconds=0.01": {200, "\x1f\x8b"}, "trace?seconds=0.01": {200, "go 1."},
		"nothing": {404, "see /debug/pprof/"}, "trace?seconds=x": {400, "give a number"}, "profile?seconds=-1": {400, "give a number"}, "profile?seconds=NaN": {400, "give a number"},
		"profile?seconds=601": {400, "at most 600"},
	} {
		if code, body := get(t, h, "/debug/pprof/"+path, "127.0.0.1:5", "localhost"); code != want.code || !strings.Contains(body, want.says) {
			t.Errorf("%s: %d %.100q; want %d %q", path, code, body, want.code, want.says)
		}
	}
	if code, _ := get(t, http.DefaultServeMux, "/debug/pprof/", "192.0.2.1:1", "node"); code != http.StatusNotFound {
		t.Errorf("a program that serves http.DefaultServeMux serves profiles: %d", code)
	}
}
