//go:build unix

package consul_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/store/storetest"
)

const patience = 60 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func set(key, value string) []store.Op { return []store.Op{store.Set(key, []byte(value))} }

func mustTxn(t testing.TB, kv store.KV, ops ...store.Op) []store.Pair {
	t.Helper()
	p, err := kv.Txn(within(t), ops)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The policy in the docs is enough for all that the shards do, and without a token nothing goes.
func TestMinimalPolicy(t *testing.T) {
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{ACL: true, MinTTL: shortTTL})
	token := consultest.NewToken(t, server, consul.Policy("raysys/", "raysys"))
	storetest.Run(t, func(*testing.T) storetest.Backend {
		cfg := consul.Config{Addresses: []string{server.Address()}, Prefix: prefix(), Token: token}
		return storetest.Backend{
			Open: func(t *testing.T) store.KV { return open(t, cfg) },
			TTL:  shortTTL,
			Gone: shortTTL + 20*time.Second,
		}
	})
	// The suite's parts run when this function has returned; the rest needs no waiting for them.
	good := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix(), Token: token})
	if err := good.Register(within(t), consul.Service{ID: "n-1", Name: "raysys", Port: 1, TTL: time.Minute}); err != nil {
		t.Errorf("register under the policy: %v", err)
	}
	for name, token := range map[string]string{
		"no token": "00000000-0000-0000-0000-000000000002", "unknown": "9f2ba4c0-6d1f-4f6a-9d7e-0c5d3f1a2b3c", "other prefix": consultest.NewToken(t, server, consul.Policy("other/", "other")),
	} {
		kv := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix(), Token: token})
		_, err1 := kv.Txn(within(t), set("a", "1"))
		_, err2 := kv.Txn(within(t), []store.Op{store.CheckNotExists("a"), store.Set("a", nil)})
		err3 := kv.Register(within(t), consul.Service{ID: "n-2", Name: "raysys", Port: 1, TTL: time.Minute})
		for i, err := range []error{err1, err2, err3} {
			if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%s, call %d: %v, want ErrDenied", name, i+1, err)
			}
		}
	}
}

// The server's own minimum, as it is in production: ten seconds, and up to twice that.
func TestDefaultTTL(t *testing.T) {
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{})
	kv := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()})
	if _, err := kv.NewSession(within(t), "x", consul.MinTTL-time.Second); !errors.Is(err, store.ErrBadOp) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a session of less than the minimum: %v, want ErrBadOp", err)
	}
	ses, err := kv.NewSession(within(t), "x", consul.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	mustTxn(t, kv, store.Lock("held", nil, ses))
	if !long.Form(false, true) { // the short form has the end of sessions of 2 s, in the conformance tests
		return
	}
	_, index, err := kv.List(within(t), "held", store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	if pairs, _, err := kv.Watch(within(t), "held", index); err != nil || len(pairs) != 0 {
		t.Fatalf("%v, %v", pairs, err)
	}
	if d := time.Since(start); d < consul.MinTTL || d > 2*consul.MinTTL+5*time.Second {
		t.Errorf("a session of %v ended after %v", consul.MinTTL, d)
	}
}

// While the server's process stands still, a change has an unknown outcome and a read has none; sessions outlast it.
func TestPausedServer(t *testing.T) {
	long.Only(t)
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{Disk: true})
	cfg := consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()}
	kv := open(t, cfg)
	cfg.Timeout = 500 * time.Millisecond
	hasty := open(t, cfg) // asks what is to have no answer
	ses, err := kv.NewSession(within(t), "x", consul.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	mustTxn(t, kv, store.Lock("held", nil, ses))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := hasty.Txn(within(t), set("a", "1")); !errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("change: %v, want ErrUnknownOutcome", err)
	}
	if _, err := hasty.Get(within(t), "a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read: %v, want ErrUnavailable", err)
	}
	if err := hasty.Renew(within(t), ses); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrSessionGone) {
		t.Errorf("renewal: %v, want ErrUnavailable", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := kv.Txn(ctx, set("b", "1")); !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("change whose caller gave up: %v, want ErrUnknownOutcome and the caller's cause", err)
	}
	if err := errors.Join(server.Resume(), server.Serving(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := kv.Renew(within(t), ses); err != nil {
		t.Error(err)
	}
	mustTxn(t, kv, store.CheckSession("held", ses))
}

// A server that is down does nothing, and says so at once. On disk it comes back with everything, sessions included.
func TestRestartedServer(t *testing.T) {
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{Disk: true})
	kv := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()})
	cluster, err := shardlog.OpenLayout(within(t), kv, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	ses, err := kv.NewSession(within(t), "x", consul.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	before := mustTxn(t, kv, store.Lock("held", []byte("x"), ses))[0]
	_, index, err := kv.List(within(t), "held", store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	watch := make(chan error, 1)
	go func() {
		_, _, err := kv.Watch(within(t), "held", index)
		watch <- err
	}()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-watch; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("watch of a server that died: %v, want ErrUnavailable", err)
	}
	// A connection of before may break under a change; there are nine at most.
	for range 9 {
		if _, err := kv.Txn(within(t), set("a", "1")); errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	for range 3 {
		_, err := kv.Txn(within(t), set("a", "1"))
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), server.Address()) {
			t.Errorf("change: %v, want ErrUnavailable with the address", err)
		}
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := kv.Renew(within(t), ses); err != nil {
		t.Errorf("renewal after the server's restart: %v", err)
	}
	after := mustTxn(t, kv, store.CheckSession("held", ses), store.Read("held"))[1]
	if after.Create != before.Create || string(after.Value) != "x" {
		t.Errorf("after the restart %+v, before %+v", after, before)
	}
	if again, err := shardlog.OpenLayout(within(t), kv, "", 4); err != nil || again.ID != cluster.ID {
		t.Error(again.ID, err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestServerThatComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{})
	kv := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()})
	cluster, err := shardlog.OpenLayout(within(t), kv, "", 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(server.Kill(), server.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if again, err := shardlog.OpenLayout(within(t), kv, "", 4); err != nil || again.ID == cluster.ID {
		t.Fatalf("a store that came back empty has the cluster's id still, or none: %q, %v", again.ID, err)
	}
}

func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	address := up(t, inMemory).Address()
	kv := open(t, consul.Config{Addresses: []string{"127.0.0.1:1", "http://" + address}, Prefix: prefix()})
	mustTxn(t, kv, store.Set("a", []byte("1")))
	if got := kv.Address(); !strings.HasSuffix(got, address) {
		t.Errorf("uses %s", got)
	}
	none := open(t, consul.Config{Addresses: []string{"127.0.0.1:1", "127.0.0.1:2"}, Prefix: prefix()})
	if _, err := none.Txn(within(t), set("a", "1")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no address works: %v", err)
	}
}

// However much a node asks at once, it has 16 connections, and a renewal waits for none of it (C13).
func TestConnectionsAreBounded(t *testing.T) {
	long.Only(t)
	t.Parallel()
	kv := open(t, consul.Config{Addresses: []string{up(t, inMemory).Address()}, Prefix: prefix(), Timeout: patience})
	ses, err := kv.NewSession(within(t), "x", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kv.Destroy(within(t), ses) }()
	mustTxn(t, kv, store.Set("watched", nil))
	_, index, err := kv.List(within(t), "watched", store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { _, _, _ = kv.Watch(ctx, "watched", index) })
	}
	var done, most atomic.Int64
	for g := range 100 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := kv.Txn(ctx, set(fmt.Sprint("load/", g), strings.Repeat("x", 4<<10))); err == nil {
					done.Add(1)
				}
				if n := int64(kv.Connections()); n > most.Load() {
					most.Store(n)
				}
			}
		})
	}
	var worst time.Duration
	for done.Load() < 3000 && ctx.Err() == nil {
		start := time.Now()
		if err := kv.Renew(ctx, ses); err != nil {
			t.Error(err)
			break
		}
		worst = max(worst, time.Since(start))
	}
	if n := most.Load(); n > 16 || n <= 5 { // the watches have five
		t.Errorf("%d connections", n)
	}
	if _, _, err := kv.Watch(ctx, "more", 1); !errors.Is(err, store.ErrBadOp) {
		t.Errorf("a sixth watch: %v", err)
	}
	cancel()
	wg.Wait()
	t.Logf("%d connections, worst renewal %v beside %d writes", most.Load(), worst, done.Load())
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	address := up(t, inMemory).Address()
	kv := open(t, consul.Config{Addresses: []string{address}, Prefix: prefix()})
	client, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	registered := func() []*api.ServiceEntry {
		t.Helper()
		list, _, err := client.Health().Service("raysys-catalog", "", true, nil)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	svc := consul.Service{
		ID: "node-a-1", Name: "raysys-catalog", Address: "10.1.2.3", Port: 7000,
		Tags: []string{"worker"}, Meta: map[string]string{"version": "1"}, TTL: 30 * time.Second,
	}
	for range 2 {
		if err := kv.Register(within(t), svc); err != nil {
			t.Fatal(err)
		}
	}
	list := registered()
	if len(list) != 1 || list[0].Service.Address != svc.Address || list[0].Service.Port != svc.Port || list[0].Service.Meta["version"] != "1" || list[0].Service.Tags[0] != "worker" {
		t.Fatalf("registered: %+v", list)
	}
	if err := kv.Pass(within(t), svc.ID, "leads 3 shards"); err != nil {
		t.Error(err)
	}
	if err := kv.Deregister(within(t), svc.ID); err != nil {
		t.Fatal(err)
	}
	if list := registered(); len(list) != 0 {
		t.Errorf("deregistered: %+v", list)
	}
	if err := kv.Pass(within(t), svc.ID, ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("pass what the agent does not know: %v, want ErrNotFound", err)
	}
}
