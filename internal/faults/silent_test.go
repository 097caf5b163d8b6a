package faults_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// Hosts that say nothing for a while, or for good: when others answer for their grains, and that no reader, least of
// all one beside the grain on a host that comes back, is told what is no longer so.

var (
	repeats  = flag.Int("repeats", 0, "how often a host falls silent in a test; 0: as often as the form says")
	oldBuild = flag.String("old", "", "the tests of this package as an earlier commit builds them (go test -c), for TestSilentBesideAnOldBuild")
)

const (
	// silenceTTL is the lease of these tests, the usual one.
	silenceTTL = 10 * time.Second
	// replacedWithin is far more than a host may be silent by default, 4 s, and less than two leases, which a host
	// has had once that its electors did not evict.
	replacedWithin = 15 * time.Second
)

// witness is a grain that reads a counter from its node again and again, also while that node is frozen out of the
// cluster.
type witness struct{}

// watch is what a witness does, until the file Stop is there.
type watch struct{ Key, File, Stop string }

func (*witness) Watch(ctx context.Context, w watch) (int, error) {
	f, err := os.OpenFile(w.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for n := 0; ; n++ {
		if _, err := os.Stat(w.Stop); err == nil || ctx.Err() != nil {
			return n, ctx.Err()
		}
		if s, err := ask(ctx, w.Key, time.Second, false); err == nil {
			fmt.Fprintln(f, s.N, s.Begin, s.End) // one write: a line is there or not
		}
		pause(2 * time.Millisecond)
	}
}

var (
	witnesses = grains.Define[witness]("faults.witness")
	watching  = grains.Method(witnesses, "watch", (*witness).Watch).With(raysys.Deadline(time.Hour))
)

// said is an answer of a counter, and when its call began and ended: all processes have this machine's clock.
type said struct {
	By         string // the process that called
	N          int
	Begin, End int64 // Unix time in nanoseconds
}

// ask calls a counter, to add one or to read it.
func ask(ctx context.Context, key string, limit time.Duration, adds bool) (a said, err error) {
	a = said{By: "test", Begin: time.Now().UnixNano()}
	if adds {
		a.N, err = add.With(raysys.Deadline(limit)).Call(ctx, counters.Get(key), 1).Get(ctx)
	} else {
		a.N, err = read.With(raysys.Deadline(limit)).Call(ctx, counters.Get(key)).Get(ctx)
	}
	a.End = time.Now().UnixNano()
	return a, err
}

// silences is processes of which some fall silent, once a round, and a counter for each round.
type silences struct {
	t    *testing.T
	p    *testkit.Procs
	dir  string
	runs int // rounds, for the names of their files and keys

	mu      sync.Mutex // guards the rest
	answers []said     // of the round, to calls of this process
	all     int        // answers of all rounds that were compared
}

func newSilences(t *testing.T, p *testkit.Procs) *silences {
	return &silences{t: t, p: p, dir: t.TempDir()}
}

// startSilences starts n processes with the usual lease.
func startSilences(t *testing.T, n int, o ...testkit.Option) *silences {
	o = append(o, testkit.CPU(1), testkit.TTL(silenceTTL), testkit.On(testkit.Consul(t, onDisk()...)))
	return newSilences(t, testkit.Processes(t, n, o...))
}

// round has a counter on process i, and a witness of it in each process, while f runs. Then it waits for the cluster
// to be whole, and compares all answers: none is older than one that was given before its call began.
func (s *silences) round(i int, f func(key string)) {
	s.t.Helper()
	s.runs++
	s.answers = nil
	key := fmt.Sprintf("%s-%d", s.t.Name(), s.runs)
	ctx := s.p.Context()
	if n, err := add.With(raysys.OnNode(s.p.Proc(i).Name())).Call(ctx, counters.Get(key), 7).Get(ctx); n != 7 || err != nil {
		s.t.Fatal(n, err)
	}
	stop := filepath.Join(s.dir, fmt.Sprintf("stop%d", s.runs))
	files := filepath.Join(s.dir, fmt.Sprintf("said%d-", s.runs))
	for n := range s.p.Size() {
		name := s.p.Proc(n + 1).Name()
		w := watch{Key: key, File: files + string(name), Stop: stop}
		watching.With(raysys.OnNode(name)).Call(ctx, witnesses.Get(fmt.Sprint(key, name)), w)
		testkit.Eventually(s.t, 10*time.Second, "the witness on "+string(name)+" reads", func() bool {
			info, err := os.Stat(w.File)
			return err == nil && info.Size() > 0
		})
	}
	pause(time.Second) // in which a host that has just joined comes to know who may judge it
	f(key)
	s.p.Ready()
	s.ask(key, 10*time.Second, true)
	if err := os.WriteFile(stop, nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.compare(key, files)
}

// ask calls the counter and notes the answer. A call that fails may have been done or not.
func (s *silences) ask(key string, limit time.Duration, adds bool) error {
	a, err := ask(s.p.Context(), key, limit, adds)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers = append(s.answers, a)
	}
	return err
}

// use adds and reads, each call within limit.
func (s *silences) use(key string, limit time.Duration) *load {
	return startLoad(2, nil, func(_ context.Context, client, i int) error {
		pause(10 * time.Millisecond)
		return s.ask(key, limit, client == 0)
	})
}

// compare looks for an answer that is older than another that was given before its call began.
func (s *silences) compare(key, files string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.answers)
	for i := range s.p.Size() {
		name := string(s.p.Proc(i + 1).Name())
		text, err := os.ReadFile(files + name)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			a := said{By: name}
			if _, err := fmt.Sscan(line, &a.N, &a.Begin, &a.End); err != nil {
				s.t.Fatalf("%s: %q: %v", name, line, err)
			}
			all = append(all, a)
		}
	}
	s.all += len(all)
	ends := slices.SortedFunc(slices.Values(all), func(a, b said) int { return cmp.Compare(a.End, b.End) })
	slices.SortFunc(all, func(a, b said) int { return cmp.Compare(a.Begin, b.Begin) })
	old := map[string]int{}
	newest, next := said{}, 0
	for _, a := range all {
		for ; ends[next].End < a.Begin; next++ {
			if ends[next].N > newest.N {
				newest = ends[next]
			}
		}
		if a.N >= newest.N {
			continue
		}
		if old[a.By]++; old[a.By] == 1 {
			s.t.Errorf("%s: %s was told %d, %v after %s had been told %d", key, a.By, a.N, time.Duration(a.Begin-newest.End), newest.By, newest.N)
		}
	}
	if len(old) > 0 {
		s.t.Errorf("%s: answers of %d that are too old: %v", key, len(all), old)
	}
}

// silence strikes process i and returns how long it took until its counter was read elsewhere; then it has the
// counter changed there, and ends the silence a second later: one that does not hear the others has to know by then
// that it is not to answer.
func (s *silences) silence(i int, strike, end func()) (took time.Duration) {
	s.t.Helper()
	s.round(i, func(key string) {
		strike()
		took = firstGood(s.p.Context(), s.t, key, 250*time.Millisecond, 7)
		if err := s.ask(key, 10*time.Second, true); err != nil {
			s.t.Error(err)
		}
		pause(time.Second)
		end()
	})
	return took
}

// apart lets a TTL pass between two evictions in the long forms: no more than half of the members go in one.
func apart() { pause(long.Form(0, silenceTTL+time.Second)) }

func times(short, full int) int { return cmp.Or(*repeats, long.Form(short, full)) }

// nodeCounts are the sizes of the clusters.
func nodeCounts() []int { return long.Form([]int{3}, []int{2, 3, 5}) }

// TestSilentHost: SIGSTOP freezes a host, and its counter answers elsewhere; then it goes on.
func TestSilentHost(t *testing.T) {
	for _, n := range nodeCounts() {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			s := startSilences(t, n)
			var all spread
			for r := range times(1, 30) {
				victim := s.p.Proc(r%n + 1)
				all = append(all, s.silence(r%n+1, victim.Pause, victim.Resume))
				apart()
			}
			figure(t, "first good read of a counter after SIGSTOP of its host, %d nodes, TTL %v: %v; %d answers, none too old", n, silenceTTL, all, s.all)
			if all.worst() > replacedWithin {
				t.Errorf("it took %v, want %v", all.worst(), replacedWithin)
			}
		})
	}
}

// TestPausedHost: a host pauses and goes on. A short pause costs nothing but the wait. After a longer one the host
// either stayed, or was fenced and has joined anew.
func TestPausedHost(t *testing.T) {
	const short = 4 * time.Second
	pauses := long.Form([]time.Duration{2 * time.Second, 6 * time.Second}, []time.Duration{3500 * time.Millisecond, 4100 * time.Millisecond, 6 * time.Second})
	for _, n := range nodeCounts() {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			s := startSilences(t, n)
			for _, d := range pauses {
				var gaps spread
				s.all = 0
				fenced, rounds := 0, times(1, 30)
				for r := range rounds {
					i := r%n + 1
					proc := s.p.Proc(i)
					was, pid := statusOf(t, s.p), proc.PID()
					s.round(i, func(key string) {
						limit := 500 * time.Millisecond
						if d < short {
							limit = silenceTTL // no call is to fail
						}
						calls := s.use(key, limit)
						proc.Pause()
						pause(d)
						proc.Resume()
						pause(time.Second) // for what was under way when it went on
						s.p.Ready()
						calls.end()
						gaps = append(gaps, calls.gap)
						if d < short {
							calls.none(t, fmt.Sprintf("calls during a pause of %v", d))
						}
					})
					for name, now := range statusOf(t, s.p) {
						switch {
						case now == was[name]:
						case name == proc.Name() && now > was[name]:
							fenced++
						default:
							t.Errorf("after a pause of %s for %v %s is incarnation %d, and was %d", proc.Name(), d, name, now, was[name])
						}
					}
					if !proc.Runs() || proc.PID() != pid {
						t.Errorf("%s did not live through a pause of %v", proc.Name(), d)
					}
					apart()
				}
				if fenced > 0 && d < short {
					t.Errorf("%d of %d pauses of %v ended in an eviction", fenced, rounds, d)
				}
				figure(t, "SIGSTOP for %v, %d nodes, TTL %v, %d times: %d times evicted and joined anew; longest time without an answer: %v; %d answers, none too old",
					d, n, silenceTTL, rounds, fenced, gaps, s.all)
			}
		})
	}
}

// TestManySilentHosts: two hosts of three freeze at once, or three of four. Those that are left hear too few members
// to judge, or are too few electors: the silent ones go by the slow path, or when Consul ends their sessions.
func TestManySilentHosts(t *testing.T) {
	long.Only(t)
	for _, n := range []int{3, 4} {
		t.Run(fmt.Sprintf("%d of %d", n-1, n), func(t *testing.T) {
			s := startSilences(t, n)
			var all spread
			for r := range times(1, 10) {
				each := func(f func(*testkit.Proc)) func() {
					return func() {
						for i := range n - 1 {
							f(s.p.Proc((r+i)%n + 1))
						}
					}
				}
				all = append(all, s.silence(r%n+1, each((*testkit.Proc).Pause), each((*testkit.Proc).Resume)))
				pause(2 * silenceTTL)
			}
			figure(t, "first good read of a counter after SIGSTOP of %d of %d hosts: %v; %d answers, none too old", n-1, n, all, s.all)
			if limit := 2*silenceTTL + 5*time.Second; all.worst() > limit {
				t.Errorf("it took %v, want %v", all.worst(), limit)
			}
		})
	}
}

// TestSilentBesideAnOldBuild: one process of three runs an earlier build, which knows nothing of promises.
func TestSilentBesideAnOldBuild(t *testing.T) {
	if long.Only(t); *oldBuild == "" {
		t.Skip("needs -old FILE")
	}
	s := startSilences(t, 3, testkit.Wrap(func(i int) []string {
		if i == 1 {
			return []string{*oldBuild}
		}
		return nil
	}))
	var all [3]spread
	for r := range times(3, 30) {
		victim := s.p.Proc(r%3 + 1)
		all[r%3] = append(all[r%3], s.silence(r%3+1, victim.Pause, victim.Resume))
		apart()
	}
	figure(t, "first good read of a counter after SIGSTOP of its host of 3, the first of an earlier build, by host: %v; %v; %v; %d answers, none too old", all[0], all[1], all[2], s.all)
}
