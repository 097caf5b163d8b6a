package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// separate is processes on hosts of their own, and Consul behind a proxy for each that counts what it is asked.
type separate struct {
	*silences
	h       *hosts
	proxies []*proxied
}

// newSeparate starts n hosts, the first with a lease of its own.
func newSeparate(t *testing.T, n int, firstTTL, ttl time.Duration) *separate {
	h := newHosts(t, n)
	server := testkit.Consul(t, onDisk(testkit.MinTTL(time.Second))...)
	x := &separate{h: h}
	for range n {
		x.proxies = append(x.proxies, newProxied(t, h.consul(), server.Address()))
	}
	p := testkit.Processes(t, n, testkit.CPU(1), testkit.TTL(ttl), testkit.On(server),
		testkit.Wrap(func(i int) []string {
			command := []string{"ip", "netns", "exec", h.namespace(i), "env"}
			if i == 1 {
				command = append(command, "RAYSYS_TTL="+firstTTL.String())
			}
			return command
		}),
		testkit.EnvOf(func(i int) []string {
			return []string{"RAYSYS_CONSUL=" + x.proxies[i-1].address, "RAYSYS_LISTEN=" + h.address(i) + ":0", "RAYSYS_INSECURE=true"}
		}),
		testkit.Config(system.Config{Cluster: &system.ClusterConfig{Listen: h.own() + ":0", Insecure: true}}))
	x.silences = newSilences(t, p)
	return x
}

// TestSilentHosts: a host falls silent whose cable is pulled, that is cut off from the others while all reach Consul,
// both ways or one way, or that loses power.
func TestSilentHosts(t *testing.T) {
	x := newSeparate(t, 3, silenceTTL, silenceTTL)
	unheard := func(f func(int, string)) func(int) {
		return func(i int) {
			x.h.peers(i, func(from int, to string) {
				if from == i {
					f(from, to)
				}
			})
		}
	}
	faults := []struct {
		name        string
		strike, end func(i int)
	}{
		{"its cable was pulled", x.h.cut, x.h.mend},
		{"it was cut off from the others alone", func(i int) { x.h.peers(i, x.h.lose) }, func(i int) { x.h.peers(i, x.h.find) }},
		{"no other heard it", unheard(x.h.lose), unheard(x.h.find)},
		{
			"its power was lost", func(i int) { x.h.cut(i); x.p.Proc(i).Kill() },
			func(i int) { x.h.mend(i); x.p.Proc(i).Restart() },
		},
	}
	for f, fault := range faults[:long.Form(2, len(faults))] {
		var all, back spread
		asked := int64(0)
		x.all = 0
		for r := range times(1, 30) {
			i := (f+r)%3 + 1
			var before int64
			var mended time.Time
			all = append(all, x.silence(i, func() {
				before = x.proxies[i-1].reads.Load()
				fault.strike(i)
			}, func() {
				asked = max(asked, x.proxies[i-1].reads.Load()-before)
				fault.end(i)
				mended = time.Now()
			}))
			back = append(back, time.Since(mended))
			apart()
		}
		figure(t, "first good read of a counter of a host of 3 after %s, TTL %v: %v; whole again after its end: %v; it read Consul at most %d times meanwhile; %d answers, none too old",
			fault.name, silenceTTL, all, back, asked, x.all)
		if all.worst() > replacedWithin {
			t.Errorf("%s: it took %v, want %v", fault.name, all.worst(), replacedWithin)
		}
	}
}

// TestUnequalLeases: a host with a lease of 30 s beside hosts with one of 3 s, who must not take 3 s for the end of
// it. The cable of one is pulled, and for so long it has only its own lease to go by.
func TestUnequalLeases(t *testing.T) {
	x := newSeparate(t, 3, 30*time.Second, 3*time.Second)
	var all [2]spread
	for r := range times(1, 20) {
		i := r%2 + 1
		all[r%2] = append(all[r%2], x.silence(i, func() { x.h.cut(i) }, func() { x.h.mend(i) }))
		apart()
	}
	figure(t, "first good read of a counter after the cable of its host was pulled, TTL 30 s beside 3 s: %v; the other way round: %v; %d answers, none too old", all[0], all[1], x.all)
}

// TestHostWithoutConsul: one host is cut off from Consul alone. For less than its lease nothing happens; for longer
// Consul ends its session, as ever.
func TestHostWithoutConsul(t *testing.T) {
	long.Only(t)
	x := newSeparate(t, 3, silenceTTL, silenceTTL)
	for _, away := range []time.Duration{5 * time.Second, 0} {
		var gaps spread
		x.all = 0
		for r := range times(1, 5) {
			i := r%3 + 1
			name, was := x.p.Proc(i).Name(), statusOf(t, x.p)
			x.round(i, func(key string) {
				calls := x.use(key, 500*time.Millisecond)
				x.h.lose(i, x.h.consul())
				if away > 0 {
					pause(away)
				} else {
					testkit.Eventually(t, 4*silenceTTL, "the session of the host ends", func() bool { return statusOf(t, x.p)[name] != was[name] })
					pause(2 * time.Second)
				}
				x.h.find(i, x.h.consul())
				x.p.Ready()
				calls.end()
				gaps = append(gaps, calls.gap)
			})
			if now := statusOf(t, x.p); away > 0 && now[name] != was[name] {
				t.Errorf("%s was without Consul for %v: incarnation %d became %d", name, away, was[name], now[name])
			}
			apart()
		}
		figure(t, "a host of 3 without Consul, for %v (0: until its session ended), TTL %v: longest time without an answer: %v; %d answers, none too old", away, silenceTTL, gaps, x.all)
	}
}

// TestQuietHosts measures what hosts say that have nothing to do: to Consul, and in packets.
func TestQuietHosts(t *testing.T) {
	long.Only(t)
	x := newSeparate(t, 3, silenceTTL, silenceTTL)
	pause(2 * silenceTTL)
	type count struct{ reads, writes, sent, got int64 }
	counts := func() (all []count) {
		for i, p := range x.proxies {
			packets := func(what string) int64 {
				b, err := os.ReadFile(filepath.Join("/sys/class/net", x.h.outside(i+1), "statistics", what))
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			all = append(all, count{p.reads.Load(), p.writes.Load(), packets("rx_packets"), packets("tx_packets")})
		}
		return all
	}
	was, from := counts(), time.Now()
	pause(2 * time.Minute)
	took := time.Since(from).Seconds()
	var rates []string
	for i, now := range counts() {
		rate := func(a, b int64) float64 { return float64(b-a) / took }
		rates = append(rates, fmt.Sprintf("%.2f reads and %.2f writes of Consul, %.0f packets sent and %.0f received",
			rate(was[i].reads, now.reads), rate(was[i].writes, now.writes), rate(was[i].sent, now.sent), rate(was[i].got, now.got)))
	}
	figure(t, "three hosts and a driver at rest, each second, by host: %s", strings.Join(rates, "; "))
}
