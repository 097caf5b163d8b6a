package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestWorkerThatNobodyTalksTo: a worker whose certificate has expired does not start. One with the certificate of
// another CA, which it trusts itself, joins and stays no host: it takes no shard, and calls to State go on as before.
func TestWorkerThatNobodyTalksTo(t *testing.T) {
	long.Only(t)
	const cluster = "untrusting"
	ttl := 10 * time.Second
	ca := newAuthority(t)
	p := testkit.Processes(t, 2, testkit.CPU(1), testkit.TTL(ttl), testkit.On(testkit.Consul(t, onDisk(testkit.MinTTL(time.Second))...)), testkit.Config(system.Config{
		Cluster: &system.ClusterConfig{Name: cluster, TLS: ca.files(cluster, "test")},
	}), testkit.EnvOf(func(i int) []string {
		f := ca.files(cluster, fmt.Sprintf("p%d", i))
		return []string{"RAYSYS_TLS_CERT=" + f.Cert, "RAYSYS_TLS_KEY=" + f.Key, "RAYSYS_TLS_CA=" + f.CA}
	}))
	ctx := p.Context()
	logged, logs := observer.New(zapcore.WarnLevel)
	stranger := func(f system.TLSFiles) system.Config {
		return system.Config{Name: "stranger", Logger: zap.New(logged), Resources: raysys.Resources{CPU: 1}, Cluster: &system.ClusterConfig{
			Name: cluster, Consul: p.Consul().Address(), Role: system.Worker, TTL: ttl, TLS: f,
		}}
	}
	err := system.Run(ctx, stranger(ca.filesUntil(cluster, "stranger", time.Now().Add(-time.Minute))), nil)
	if !errors.Is(err, system.ErrConfig) || system.ExitCode(err) != 2 || !strings.Contains(err.Error(), "expired on") {
		t.Errorf("a worker whose certificate has expired was to be refused as misconfigured: %v", err)
	}

	keys := 64 // in most of the 32 shards
	calls := func(d time.Duration) *load {
		l := startLoad(2, classes(raysys.ErrDeadline, raysys.ErrSuspended, raysys.ErrUnreachable), func(ctx context.Context, client, i int) error {
			_, err := add.With(raysys.Deadline(5*time.Second)).Call(p.Context(), counters.Get(fmt.Sprint(client, "-", i%keys)), 1).Get(p.Context())
			return err
		})
		pause(d)
		l.end()
		return l
	}
	calls(time.Second) // so that all of them are activated
	window := 8 * time.Second
	before := calls(window)

	live, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- system.Run(live, stranger(newAuthority(t).files(cluster, "stranger")), nil) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Logf("the worker ended with: %v", err)
		}
	}()
	testkit.Eventually(t, time.Minute, "status says that the worker is joining, and why it is no host", func() bool {
		st, err := p.Node().Status(ctx)
		for _, n := range st.Nodes {
			if err == nil && n.Name == "stranger" && n.State == inspect.NodeJoining && n.Error != "" {
				return true
			}
		}
		return false
	})
	span := 45 * time.Second
	during := calls(span)
	st, err := p.Node().Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range st.Shards {
		if s.Node != "p1" && s.Node != "p2" {
			t.Errorf("shard %d is led by %q: it was handed to a worker that nobody can talk to", s.Shard, s.Node)
		}
	}
	before.none(t, "before it came")
	during.none(t, "while a worker ran that nobody can talk to")
	if said := logs.FilterMessageSnippet("no host yet").All(); len(said) == 0 || !strings.Contains(fmt.Sprint(said[0].ContextMap()["why"]), "hosts have a session with it") {
		t.Errorf("its own log does not say why it is no host: %v", said)
	}
	rate := func(l *load, d time.Duration) float64 { return float64(l.calls.Load()) / d.Seconds() }
	figure(t, "worker that nobody can talk to (certificate of another CA), TTL %v: %.0f good State calls/s in %v before, %.0f/s in %v while it ran, 0 failed, 0 shards moved; one with an expired certificate exits with 2",
		ttl, rate(before, window), window, rate(during, span), span)
}
