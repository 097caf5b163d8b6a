package system_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var failsForMetrics = tasks.DefineIn(table, "http.fails", func(context.Context, int) (int, error) { return 0, errors.New("no") })

// served has a node serve at a free port of this host, and tells its address once it does.
func served(t *testing.T) (func(*system.Config), func() string) {
	core, logs := observer.New(zap.InfoLevel)
	return func(c *system.Config) { c.HTTP, c.Logger = "127.0.0.1:0", zap.New(core) }, func() string {
		t.Helper()
		var at string
		eventually(t, "the node says where it serves", func() bool {
			for _, e := range logs.FilterMessage("serving metrics and health").All() {
				at, _ = e.ContextMap()["http"].(string)
			}
			return at != ""
		})
		return at
	}
}

// fetch asks with its own connection, as a probe does.
func fetch(t *testing.T, url, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Close = host, true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// TestHTTP: a node says what it ran, what failed, what it has and how its store does; it is ready until it drains, and healthy until it is
// closed; nobody listens then.
func TestHTTP(t *testing.T) {
	f := newFleet(t)
	serve, at := served(t)
	w, _ := f.join("w1", system.Worker, serve)
	_, ctx := f.join("d", system.Driver)
	url := "http://" + at()
	if _, err := where.Go(ctx, 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := failsForMetrics.Go(ctx, 1).Get(ctx); err == nil {
		t.Fatal("it does not fail")
	}
	if _, err := add.Call(ctx, counters.Get("alice of the keys"), 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	var body string
	for _, want := range []string{
		`raysys_up 1`, `raysys_runs_total{function="where",kind="task",outcome="ok"} 1`, `raysys_runs_total{function="http.fails",kind="task",outcome="error"} 1`,
		`raysys_runs_total{function="counter.add",kind="call",outcome="ok"} 1`, `raysys_waiting{function="where",kind="task"} 0`, `raysys_grains{kind="counter"} 1`,
		`raysys_mailbox_messages{kind="counter"} 0`, `raysys_resource{resource="CPU"} `, `raysys_resource_free{resource="CPU"} `, `raysys_objects 0`,
		`raysys_transfers_open 0`, `raysys_links{way="direct"} 1`, `raysys_shards_led 32`, `raysys_store_seconds_count{operation="txn"} `,
		`raysys_store_errors_total{operation="session"} 0`, `raysys_lease_left_seconds `, `raysys_promise_left_seconds `, `raysys_fenced_reads_total 0`,
		`raysys_evictions_total{path="fast"} 0`, `go_goroutines `,
	} {
		eventually(t, want, func() bool { _, body = fetch(t, url+"/metrics", ""); return strings.Contains(body, "\n"+want) })
	}
	for _, never := range []string{"alice", `raysys_store_seconds_count{operation="session"} 0`, `raysys_store_seconds_sum{operation="txn"} 0` + "\n"} {
		if strings.Contains(body, never) {
			t.Errorf("%s is shown in\n%s", never, body)
		}
	}
	if m := regexp.MustCompile(`raysys_store_seconds_count{operation="txn"} (\d+)`).FindStringSubmatch(body); len(m) < 2 || len(m[1]) < 2 {
		t.Errorf("%q: a node that leads 32 shards wrote less than ten times", m)
	}
	for path, code := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/heap": 200, "/nothing": 404} {
		if got, said := fetch(t, url+path, ""); got != code {
			t.Errorf("%s: %d %.100s, want %d", path, got, said, code)
		}
	}
	if code, _ := fetch(t, url+"/debug/pprof/heap", "evil.example"); code != http.StatusForbidden {
		t.Errorf("a page of another name gets a profile: %d", code)
	}

	s := stallAt(t, "scraped")
	r := stallFor.Go(ctx, "scraped")
	<-s.begun
	over := make(chan error, 1)
	go func() { over <- w.Drain(t.Context()) }()
	eventually(t, "a node that drains is not ready", func() bool {
		code, said := fetch(t, url+"/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(said, "drains")
	})
	if code, _ := fetch(t, url+"/healthz", ""); code != http.StatusOK {
		t.Errorf("while it drains: %d", code)
	}
	s.release()
	if _, err := r.Get(ctx); err != nil {
		t.Error(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := w.Close(within(t, 30*time.Second)); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		c.Close()
		t.Error("a node that is closed listens")
	}
}

// TestHTTPBeforeStart: a node that cannot reach its store is healthy and not ready, and of what it would have to say nothing is said.
func TestHTTPBeforeStart(t *testing.T) {
	f := newFleet(t)
	kv := flaky.Wrap(f.kv)
	away := make(chan struct{})
	kv.Hook(func(flaky.Call) flaky.Fault {
		<-away
		return flaky.None
	})
	serve, at := served(t)
	cfg := system.Config{Name: "w", Table: table, Namespace: "test", Cluster: &system.ClusterConfig{Store: kv, Role: system.Worker}}
	serve(&cfg)
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- n.Start(t.Context()) }()
	url := "http://" + at()
	if code, _ := fetch(t, url+"/healthz", ""); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	if code, said := fetch(t, url+"/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(said, "not started") {
		t.Errorf("readyz: %d %s", code, said)
	}
	if _, body := fetch(t, url+"/metrics", ""); !strings.Contains(body, "\nraysys_up 0\n") || strings.Contains(body, "raysys_objects ") {
		t.Errorf("before it has started:\n%s", body)
	}
	close(away)
	if err := <-started; err != nil {
		t.Error(err)
	}
	eventually(t, "it is ready", func() bool { code, _ := fetch(t, url+"/readyz", ""); return code == http.StatusOK })
	if err := n.Close(within(t, 30*time.Second)); err != nil {
		t.Error(err)
	}
}

// TestHTTPTaken: where the address is taken, a program says so in one line and goes on, and one that raysys node keeps running is refused.
func TestHTTPTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	core, logs := observer.New(zap.WarnLevel)
	n, err := system.New(system.Config{Table: table, HTTP: l.Addr().String(), Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(t.Context())
	if v, err := twice.Go(ctx, 21).Get(ctx); v != 42 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	all := logs.All()
	if len(all) != 1 || !strings.Contains(all[0].ContextMap()["error"].(string), l.Addr().String()) {
		t.Errorf("%v", all)
	}

	f := newFleet(t)
	var told words
	err = system.Run(t.Context(), system.Config{
		Table: table, Namespace: "test", HTTP: l.Addr().String(), Cluster: &system.ClusterConfig{Store: f.kv, Role: system.Worker, Supervisor: &told},
	}, nil)
	if !errors.Is(err, system.ErrConfig) || !strings.Contains(err.Error(), "--http") || !bytes.HasPrefix([]byte(told.String()), []byte("misconfigured\n")) {
		t.Errorf("below a supervisor: %v, told %q", err, told.String())
	}
}

// TestHTTPAlone: without a cluster there is nothing of one.
func TestHTTPAlone(t *testing.T) {
	serve, at := served(t)
	cfg := system.Config{Table: table, Resources: raysys.Resources{CPU: 2, GPU: 1, Custom: map[string]float64{"licence": 3}}}
	serve(&cfg)
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	if code, said := fetch(t, "http://"+at()+"/readyz", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, said)
	}
	_, body := fetch(t, "http://"+at()+"/metrics", "")
	for _, want := range []string{`raysys_resource{resource="CPU"} 2`, `raysys_resource{resource="GPU"} 1`, `raysys_resource{resource="licence"} 3`, `raysys_gpu_held_ratio{gpu="0"} 0`} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no line %s in\n%s", want, body)
		}
	}
	if strings.Contains(body, "raysys_lease") || strings.Contains(body, "raysys_shards") {
		t.Error("a node alone has a lease")
	}
	if _, err := system.New(system.Config{Table: table, HTTP: "9464"}); err == nil || !strings.Contains(err.Error(), `Config.HTTP is "9464": give HOST:PORT`) {
		t.Errorf("%v", err)
	}
}

// TestOddNames: names may be any bytes; which are no UTF-8 is said before the node starts.
func TestOddNames(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	names := raysys.NewTable()
	for _, name := range []string{"fine ö", "odd\xff"} {
		tasks.DefineIn(names, name, func(context.Context, int) (int, error) { return 0, nil })
	}
	if _, err := system.New(system.Config{Table: names, Logger: zap.New(core)}); err != nil {
		t.Fatal(err)
	}
	said := logs.FilterMessage("a name is no UTF-8: metrics and commands show it escaped").All()
	if len(said) != 1 || said[0].ContextMap()["name"] != `odd\xff` || !strings.Contains(said[0].ContextMap()["defined"].(string), "http_test.go:") {
		t.Errorf("%v", said)
	}
}
