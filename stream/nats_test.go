//go:build unix

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/jetbus"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// sequence is a Durable grain whose events are 0, 1, 2, ... It notes each that comes out of order, is missing, or comes twice.
type sequence struct {
	State grains.State[progress] `raysys:"progress"`
	stream.Cursor
}

type progress struct {
	Next int
	Bad  []string
}

var (
	numbers   = stream.Define[int]("numbers")
	sequences = grains.Define[sequence]("sequence", grains.Durable())
	_         = stream.Into(numbers, sequences, (*sequence).OnNumber)
	soFar     = grains.Method0(sequences, "so-far", func(s *sequence, _ context.Context) (progress, error) { return s.State.Value, nil }).ReadOnly()
)

func (s *sequence) OnNumber(_ context.Context, e stream.Event[int]) error {
	v := &s.State.Value
	if e.Value != v.Next {
		v.Bad = append(v.Bad, fmt.Sprintf("%d where %d is next", e.Value, v.Next))
	}
	v.Next = e.Value + 1
	return nil
}

// publishers publish the numbers of some keys, each key's in its order, until they are told to end.
type publishers struct {
	t       *testing.T
	stop    atomic.Bool
	all     sync.WaitGroup
	stored  [8]atomic.Int64
	longest atomic.Int64 // time that one Publish took
}

func publishing(t *testing.T, ctx context.Context) *publishers {
	p := &publishers{t: t}
	for key := range p.stored {
		p.all.Go(func() {
			for n := 0; !p.stop.Load(); n++ {
				from := time.Now()
				if _, err := numbers.Publish(ctx, fmt.Sprint("key", key), n); err != nil {
					t.Error(err)
					return
				}
				p.longest.Store(max(p.longest.Load(), int64(time.Since(from))))
				p.stored[key].Add(1)
			}
		})
	}
	return p
}

// more waits until each key has more events.
func (p *publishers) more() {
	p.t.Helper()
	for key := range p.stored {
		was := p.stored[key].Load()
		await(p.t, "events are stored", func() bool { return p.stored[key].Load() >= was+16 || p.t.Failed() })
	}
}

// end ends the publishers, and checks that each event that was stored was taken once, in its order.
func (p *publishers) end(ctx context.Context) {
	p.t.Helper()
	p.more()
	p.stop.Store(true)
	p.all.Wait()
	total := int64(0)
	for key := range p.stored {
		want := int(p.stored[key].Load())
		total += int64(want)
		var got progress
		await(p.t, fmt.Sprint("all events of key ", key, " are taken"), func() bool {
			var err error
			got, err = soFar.Call(ctx, sequences.Get(fmt.Sprint("key", key))).Get(ctx)
			return err == nil && got.Next >= want
		})
		if got.Next != want || len(got.Bad) > 0 {
			p.t.Errorf("key %d: %d events are stored, %d were taken; %v", key, want, got.Next, got.Bad)
		}
	}
	p.t.Logf("%d events; the longest Publish took %v", total, time.Duration(p.longest.Load()).Round(time.Millisecond))
}

// processes is a cluster of real processes that has NATS.
func processes(t *testing.T, s *testkit.NATSServer) *testkit.Procs {
	return testkit.Processes(t, 3, testkit.Env("RAYSYS_NATS="+s.URL()), testkit.Config(system.Config{NATS: system.NATS{URL: s.URL()}}))
}

// TestFaultsOfProcesses: workers get SIGKILL, are stopped for longer than their lease and leave in good order, and the NATS server gets
// SIGKILL. No event that was stored is lost, none is taken twice, and each key's are taken in their order.
func TestFaultsOfProcesses(t *testing.T) {
	s := testkit.NATS(t, testkit.NATSSyncAlways())
	p := processes(t, s)
	ctx := p.Context()
	load := publishing(t, ctx)
	load.more()
	p.Proc(1).Restart()
	load.more()
	s.Kill(1)
	<-time.After(long.Form(time.Second, 30*time.Second))
	s.Start(1)
	load.more()
	p.Proc(2).Pause()
	<-time.After(4 * time.Second) // its lease is 3 s
	p.Proc(2).Resume()
	load.more()
	p.Proc(3).Terminate()
	load.more()
	p.ExpireSession(1)
	load.end(ctx)
}

// TestOlderStoreOfNATS: the server loses what it stored last, as without power, and gives its numbers to others.
func TestOlderStoreOfNATS(t *testing.T) {
	dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
	s := testkit.NATS(t, testkit.NATSDir(dir))
	ctx := processes(t, s).Context()
	want := 0
	publish := func(n int) {
		for range n {
			if _, err := sales.Publish(ctx, "k", 1); err != nil {
				t.Fatal(err)
			}
		}
		want += n
		eventually(t, ctx, "all count once", func(ctx context.Context) (int, error) { return inAll.Call(ctx, tills.Get("k")).Get(ctx) }, want)
	}
	publish(10)
	s.Stop(1)
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s.Start(1)
	publish(20)
	for _, fresh := range []int{5, 40} {
		s.Kill(1)
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(old))); err != nil {
			t.Fatal(err)
		}
		s.Start(1)
		publish(fresh)
	}
}

// TestReadOlderStoreOfNATS: a Read goes on with the events that come where the server has lost what it stored last, and ends before the number that the
// Read waits for, or has given it to another.
func TestReadOlderStoreOfNATS(t *testing.T) {
	dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
	s := testkit.NATS(t, testkit.NATSDir(dir))
	ctx := testkit.New(t, testkit.Nodes(1), onNATS(s)).Context()
	last := 0
	publish := func(n int) {
		t.Helper()
		for range n {
			last++
			if _, err := levels.Publish(ctx, "k", last); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(10)
	s.Stop(1)
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s.Start(1)
	publish(20)
	got := make(chan int, 1000)
	reading, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		for e, err := range levels.Read(reading, "k") {
			if err != nil && reading.Err() == nil {
				t.Error(err)
			}
			got <- e.Value
		}
	})
	next := 0
	read := func() {
		t.Helper()
		for next < last {
			next++
			select {
			case v := <-got:
				if v != next {
					t.Fatal(v, "came where", next, "is next")
				}
			case <-time.After(time.Minute): // of a busy machine; nothing waits for it where all goes well
				t.Fatal(next, "does not come")
			}
		}
	}
	for _, fresh := range []int{5, 40} {
		read()
		s.Kill(1)
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(old))); err != nil {
			t.Fatal(err)
		}
		s.Start(1)
		publish(fresh)
	}
	read()
}

var levels = stream.Define[int]("levels")

// TestThreeServers: each of three servers gets SIGKILL in turn, the leader among them.
func TestThreeServers(t *testing.T) {
	s := testkit.NATS(t, testkit.NATSServers(3), testkit.NATSSyncAlways())
	p := processes(t, s)
	ctx := p.Context()
	load := publishing(t, ctx)
	for i := 1; i <= 3; i++ {
		load.more()
		s.Kill(i)
		load.more() // two are enough
		s.Start(i)
		s.Ready()
	}
	load.end(ctx)
}

// TestFullServer: a server without room refuses an event with ErrFull, and has what it has acknowledged.
func TestFullServer(t *testing.T) {
	s := testkit.NATS(t, testkit.NATSMaxStore(1<<20))
	k := testkit.New(t, testkit.Nodes(1), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = s.URL() }))
	ctx := k.Context()
	big := make([]byte, 32<<10)
	stored := 0
	for {
		_, err := blobs.Publish(ctx, "a", big)
		if errors.Is(err, stream.ErrFull) {
			break
		}
		if err != nil || stored > 100 {
			t.Fatal(stored, err)
		}
		stored++
	}
	n := 0
	for e, err := range blobs.Read(ctx, "a", stream.ToEnd()) {
		if err != nil || len(e.Value) != len(big) {
			t.Fatal(n, err)
		}
		n++
	}
	if n != stored || n == 0 {
		t.Fatalf("%d are there, %d were stored", n, stored)
	}
}

var blobs = stream.Define[[]byte]("blobs")

// TestMismatch: a program that defines a stream otherwise than it was made is refused.
func TestMismatch(t *testing.T) {
	for name, url := range map[string]string{"memory": "memory:" + t.Name(), "NATS": testkit.NATS(t).URL()} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(1), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = url }))
			ctx := k.Context()
			if _, err := blobs.Publish(ctx, "a", nil); err != nil {
				t.Fatal(err)
			}
			if err := blobs.Refind(ctx); err != nil {
				t.Fatal(err)
			}
			_, err := blobs.Parted(4).Publish(ctx, "a", nil)
			var m *stream.MismatchError
			if !errors.Is(err, stream.ErrMismatch) || !errors.As(err, &m) || m.Have.Partitions != 16 || m.Want.Partitions != 4 || m.Stream != "blobs" {
				t.Fatal(err)
			}
		})
	}
}

// TestEarlyStream: a stream that was made before there were three servers gets copies when its agents begin, and `raysys list streams` shows how many.
func TestEarlyStream(t *testing.T) {
	s := testkit.NATS(t, testkit.NATSServers(3))
	b, err := jetbus.Open(jetbus.Config{URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	early := bus.Config{Name: "default/early/numbers", Partitions: 16, Keep: 7 * 24 * time.Hour, Replicas: 1}
	if err := b.Ensure(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	k := testkit.New(t, testkit.Nodes(1), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL, cfg.Namespace = s.URL(), "early" }))
	var part inspect.StreamPart
	await(t, "part 0 has seen to the copies", func() bool {
		all, err := k.Cluster().Node(0).Streams(k.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, part = range all.Parts {
			if part.Stream == "numbers" && part.Part == 0 && part.Copies > 0 {
				return true
			}
		}
		return false
	})
	if have, _, err := b.Replicate(t.Context(), early.Name, 1); err != nil || have != 3 || part.Copies != 3 || part.Wanted != 3 {
		t.Fatal(have, err, part)
	}
}
