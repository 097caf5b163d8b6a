package faults_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// hosts are network namespaces on one bridge: 10.77.K.1 to 10.77.K.N, 10.77.K.254 for this process and 10.77.K.253 for Consul.
type hosts struct {
	t    testing.TB
	mark string // in the name of every device and namespace
	net  string
	n    int
}

func newHosts(t testing.TB, n int) *hosts {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need ip(8)")
	}
	h := &hosts{t: t, mark: fmt.Sprintf("rs%d", os.Getpid()%10000), net: fmt.Sprintf("10.77.%d", os.Getpid()%250+1), n: n}
	t.Cleanup(h.remove)
	h.must("ip", "link", "add", h.mark+"br", "type", "bridge")
	h.must("ip", "addr", "add", h.own()+"/24", "dev", h.mark+"br")
	h.must("ip", "addr", "add", h.consul()+"/24", "dev", h.mark+"br")
	h.must("ip", "link", "set", h.mark+"br", "up")
	for i := 1; i <= n; i++ {
		ns, outside := h.namespace(i), h.outside(i)
		h.must("ip", "netns", "add", ns)
		h.must("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", ns)
		h.must("ip", "link", "set", outside, "master", h.mark+"br", "up")
		h.must("ip", "-n", ns, "addr", "add", h.address(i)+"/24", "dev", "eth0")
		h.must("ip", "-n", ns, "link", "set", "eth0", "up")
		h.must("ip", "-n", ns, "link", "set", "lo", "up")
	}
	return h
}

func (h *hosts) namespace(i int) string { return fmt.Sprintf("%sns%d", h.mark, i) }
func (h *hosts) outside(i int) string   { return fmt.Sprintf("%sv%d", h.mark, i) }
func (h *hosts) address(i int) string   { return fmt.Sprintf("%s.%d", h.net, i) }
func (h *hosts) own() string            { return h.net + ".254" }
func (h *hosts) consul() string         { return h.net + ".253" }

// cut takes host i off the bridge, as a pulled cable does, and mend puts it back.
func (h *hosts) cut(i int)  { h.t.Helper(); h.must("ip", "link", "set", h.outside(i), "down") }
func (h *hosts) mend(i int) { h.t.Helper(); h.must("ip", "link", "set", h.outside(i), "up") }

// lose has what host i sends to an address go nowhere, without a word, and find mends it.
func (h *hosts) lose(i int, address string) {
	h.t.Helper()
	h.must("ip", "-n", h.namespace(i), "neigh", "replace", address, "lladdr", "02:00:00:00:00:01", "nud", "permanent", "dev", "eth0")
}

func (h *hosts) find(i int, address string) {
	h.t.Helper()
	h.must("ip", "-n", h.namespace(i), "neigh", "del", address, "dev", "eth0")
}

// peers calls f for each direction between host i and the other members.
func (h *hosts) peers(i int, f func(from int, to string)) {
	f(i, h.own()) // the other direction is not needed: nothing comes through one
	for j := 1; j <= h.n; j++ {
		if j != i {
			f(i, h.address(j))
			f(j, h.address(i))
		}
	}
}

func (h *hosts) must(args ...string) {
	h.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		h.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// remove undoes newHosts, as far as that came.
func (h *hosts) remove() {
	for i := 1; i <= h.n; i++ {
		_ = exec.Command("ip", "netns", "del", h.namespace(i)).Run() // its devices go with it
		_ = exec.Command("ip", "link", "del", h.outside(i)).Run()
	}
	_ = exec.Command("ip", "link", "del", h.mark+"br").Run()
}

// proxied is a way to Consul that counts.
type proxied struct {
	address string
	reads   atomic.Int64 // a watch among them each time that it asks
	writes  atomic.Int64
}

func newProxied(t *testing.T, host, to string) *proxied {
	t.Helper()
	x := &proxied{}
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	through.FlushInterval = -1
	through.ErrorLog = log.New(io.Discard, "", 0) // a watch whose client ends it is no news
	through.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			x.reads.Add(1)
		} else {
			x.writes.Add(1)
		}
		through.ServeHTTP(w, r)
	}))
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		through.Transport.(*http.Transport).CloseIdleConnections()
	})
	x.address = ln.Addr().String()
	return x
}

// TestThreeHosts: three hosts, each a network of its own. One is cut off from everything for a while: its grains go on
// elsewhere, and when it is back it joins anew and serves. Nobody else notices.
func TestThreeHosts(t *testing.T) {
	long.Only(t)
	ttl, away := 10*time.Second, 30*time.Second
	h := newHosts(t, 3)
	server := testkit.Consul(t, onDisk(testkit.MinTTL(time.Second))...)
	consul := newProxied(t, h.consul(), server.Address()).address
	p := testkit.Processes(t, 3, testkit.CPU(1), testkit.TTL(ttl), testkit.On(server),
		testkit.Wrap(func(i int) []string { return []string{"ip", "netns", "exec", h.namespace(i)} }),
		testkit.EnvOf(func(i int) []string {
			return []string{"RAYSYS_CONSUL=" + consul, "RAYSYS_LISTEN=" + h.address(i) + ":0", "RAYSYS_INSECURE=true"}
		}),
		testkit.Config(system.Config{Cluster: &system.ClusterConfig{Listen: h.own() + ":0", Insecure: true}}))
	ctx := p.Context()

	// A counter on each host, and the one that is about to be cut off.
	keys := map[raysys.NodeID]string{}
	for i := 0; len(keys) < 3 && i < 1000; i++ {
		key := fmt.Sprint("host", i)
		if n, err := add.Call(ctx, counters.Get(key), 5).Get(ctx); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		keys[procOf(t, p, key).Name()] = key
	}
	was := statusOf(t, p)
	h.cut(2)
	cutAt := time.Now()
	calm := startLoad(2, nil, func(_ context.Context, c, i int) error {
		name := []raysys.NodeID{"p1", "p3"}[c]
		_, err := read.With(raysys.Deadline(2*time.Second)).Call(ctx, counters.Get(keys[name])).Get(ctx)
		pause(10 * time.Millisecond)
		return err
	})
	took := firstGood(ctx, t, keys["p2"], 500*time.Millisecond, 5)
	if took > 2*ttl+2*time.Second {
		t.Errorf("the grain of the host that was cut off was back after %v", took)
	}
	if n, err := add.Call(ctx, counters.Get(keys["p2"]), 1).Get(ctx); n != 6 || err != nil {
		t.Error(n, err)
	}
	pause(away - time.Since(cutAt))
	h.mend(2)
	back := time.Now()
	p.Ready()
	joined := time.Since(back)
	calm.end()
	calm.none(t, "calls to the hosts that were not cut off")
	now := statusOf(t, p)
	if now["p2"] <= was["p2"] {
		t.Errorf("the host that was cut off is incarnation %d again", now["p2"])
	}
	for _, name := range []raysys.NodeID{"p1", "p3", "test"} {
		if now[name] != was[name] {
			t.Errorf("%s: incarnation %d became %d", name, was[name], now[name])
		}
	}
	if !p.Proc(2).Runs() {
		t.Error("the process of the host that was cut off ended")
	}
	for _, key := range keys {
		if _, err := read.Call(ctx, counters.Get(key)).Get(ctx); err != nil {
			t.Error(err)
		}
	}
	figure(t, "three hosts in network namespaces, one cut off for %v, TTL %v: its State grain answered elsewhere after %v, it was a member again %v after the cable was back; %d calls to the others, 0 failed",
		away, ttl, took.Round(time.Millisecond), joined.Round(time.Millisecond), calm.calls.Load())
}
