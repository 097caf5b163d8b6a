package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// bytesOf runs f with a client of a buffer of byte strings, in virtual time on three nodes with files.
func bytesOf(t *testing.T, cfg Config, f func(k *testkit.Kit, ctx context.Context, c *Client[string])) {
	t.Helper()
	table := raysys.NewTable()
	server := DefineIn[string](table, "experience", cfg)
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		f(k, k.Context(), server.Get("run"))
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(_ int, cfg *system.Config) {
		if cfg.Objects.Spill == "" {
			cfg.Objects.Spill = t.TempDir()
		}
	}))
}

func oneTable(t Table) Config { return Config{Tables: []Table{t}} }

// TestNothingOfABadInsert: one bad priority refuses an insert of several batches before any of them goes.
func TestNothingOfABadInsert(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", MaxSize: 10_000}), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		p := make([]float64, batchItems+2)
		p[batchItems+1] = -1
		if err := c.Insert(ctx, "t", make([]string, len(p)), p); !errors.Is(err, ErrPriority) {
			t.Error(err)
		}
		if info, err := c.Info(ctx); err != nil || info.Size("t") != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestSizeIsOfTheTable: the size of a table is that, in however many answers its samples come.
func TestSizeIsOfTheTable(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(3)}
	bytesOf(t, oneTable(queue), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		done := make(chan error, 1)
		go func() { done <- c.Insert(ctx, "q", make([]string, 20), nil) }()
		s, err := c.Sample(ctx, "q", 20)
		if err != nil || s.Len() != 20 || s.Size > 3 {
			t.Errorf("%d samples of a table of %d, %v", s.Len(), s.Size, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestCancelled: a call that is cancelled while it waits takes nothing, and is not among those that wait.
func TestCancelled(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(3)}
	bytesOf(t, oneTable(queue), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		ended := make(chan error, 1)
		short, cancel := context.WithCancel(ctx)
		go func() { _, err := c.Sample(short, "q", 1); ended <- err }()
		k.Advance(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, raysys.ErrCancelled) {
			t.Error(err)
		}
		k.Settle() // the shard knows it
		short, cancel = context.WithCancel(ctx)
		go func() { ended <- c.Insert(short, "q", []string{"a", "b", "c", "d"}, nil) }()
		k.Advance(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, raysys.ErrCancelled) {
			t.Error(err)
		}
		k.Settle()
		info, err := c.Info(ctx)
		if err != nil || info.Size("q") != 3 || info.Shards[0].Tables[0].WaitingInserts != 0 || info.Shards[0].Tables[0].Shut != "" {
			t.Errorf("%+v, %v", info, err)
		}
		s, err := c.Sample(ctx, "q", 3)
		if err != nil || !slices.Equal(s.Steps, []string{"a", "b", "c"}) {
			t.Error(s.Steps, err)
		}
	})
}

// TestWayBreaks: an insert that waits, of which some items are in, counts once although the way to its caller breaks and others call meanwhile.
func TestWayBreaks(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(3)}
	bytesOf(t, oneTable(queue), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		done := make(chan error, 1)
		go func() { done <- c.Insert(ctx, "q", []string{"a", "b", "c", "d", "e"}, nil) }()
		k.Advance(time.Second)
		others, stop := context.WithCancel(context.Background())
		defer stop()
		for i := 1; i <= 3; i++ {
			k.Cluster().Delay(0, i, 300*time.Millisecond, 0) // so that they call before the insert is made again
			at := k.Cluster().Node(i).Context(others)
			go func() {
				for range 20 {
					_ = c.Update(at, "q", []uint64{1}, []float64{1}) // lets waiting calls go on
					<-time.After(50 * time.Millisecond)              // virtual
				}
			}()
			k.Cluster().Reset(0, i)
		}
		k.Advance(3 * time.Second)
		k.Cluster().Heal()
		s, err := c.Sample(ctx, "q", 5)
		if err != nil || strings.Join(s.Steps, "") != "abcde" {
			t.Error(s.Steps, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if info, err := c.Info(ctx); err != nil || info.Shards[0].Tables[0].Inserts != 5 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestShardWithoutSamples: a shard of several that has too few items does not hold up a Sampler.
func TestShardWithoutSamples(t *testing.T) {
	cfg := oneTable(Table{Name: "t", MaxSize: 100, Limiter: MinSize(5)})
	cfg.Shards = 3
	bytesOf(t, cfg, func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		for range 3 {
			if err := c.Insert(ctx, "t", make([]string, 20), nil); err != nil {
				t.Fatal(err)
			}
		}
		all, err := c.Sample(ctx, "t", 300)
		if err != nil {
			t.Fatal(err)
		}
		keys := slices.DeleteFunc(all.Keys, func(k uint64) bool { return k>>52 != 1 })
		if err := c.Delete(ctx, "t", keys); err != nil {
			t.Fatal(err)
		}
		s, at := c.Sampler("t", 8, 2), time.Now()
		defer s.Close()
		for range 9 {
			if b, err := s.Next(ctx); err != nil || b.Len() != 8 {
				t.Fatal(b.Len(), err)
			}
		}
		if d := time.Since(at); d > 9*shortly { // virtual time
			t.Error("it took", d)
		}
	})
}

// TestSamplerInTime: Next tells before its own deadline which limiter is shut, though the call ahead was made under a later one, and what that
// takes goes to the next Next.
func TestSamplerInTime(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(3)}
	bytesOf(t, oneTable(queue), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		if err := c.Insert(ctx, "q", []string{"a"}, nil); err != nil {
			t.Fatal(err)
		}
		s := c.Sampler("q", 1, 1)
		defer s.Close()
		if _, err := s.Next(ctx); err != nil { // and another call is ahead
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := s.Next(short)
		if shutIn(err) == nil || short.Err() != nil {
			t.Error(err, short.Err())
		}
		if err := c.Insert(ctx, "q", []string{"b"}, nil); err != nil {
			t.Fatal(err)
		}
		short, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		if b, err := s.Next(short); err != nil || b.Steps[0] != "b" {
			t.Error(b.Steps, err)
		}
	})
}

// TestRefusedByShards: what shards refuse is an error, and not asked for again and again.
func TestRefusedByShards(t *testing.T) {
	cfg := oneTable(Table{Name: "t", MaxSize: 10})
	cfg.Shards = 2
	bytesOf(t, cfg, func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		other := *c.b.d // of another version of the program
		other.cfg.Tables = append(slices.Clone(other.cfg.Tables), Table{Name: "u"})
		c.b.d = &other
		if _, err := c.Sample(ctx, "u", 1); !errors.Is(err, ErrConfig) {
			t.Error(err)
		}
	})
}

// TestCheckpointWithoutTheLost: a checkpoint leaves out items whose object went with its node, and what a failed one has written is removed.
func TestCheckpointWithoutTheLost(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", MaxSize: 10, Sampler: FIFO}), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		insert := func(node int) {
			if err := c.Insert(k.Cluster().Node(node).Context(context.Background()), "t", []string{fmt.Sprint(node), strings.Repeat("x", 100_000)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		insert(1)
		before, err := c.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			if i == 20 {
				t.Fatal("the shard is always on the node that dies")
			}
			node := i%3 + 1
			if i > 0 {
				insert(node)
			}
			k.Cluster().Kill(node)
			k.Cluster().Restart(node)
			k.Cluster().Ready()
			info, err := c.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if info.Shards[0].Run == before.Shards[0].Run {
				break
			}
			before = info // the shard was there: the next node has none
		}
		if err := c.Checkpoint(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := c.Restore(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		s, err := c.Sample(ctx, "t", 1)
		if err != nil || len(s.Steps[0]) != 1 {
			t.Error(s.Steps, err)
		}
		if info, err := c.Info(ctx); err != nil || info.Size("t") != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestShardLeftAlone: a shard that failed is asked again after a while, also where those that are left have no samples.
func TestShardLeftAlone(t *testing.T) {
	cfg := oneTable(Table{Name: "t", MaxSize: 100, Limiter: MinSize(5)})
	cfg.Shards = 2
	bytesOf(t, cfg, func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		if err := c.Insert(ctx, "t", make([]string, 20), nil); err != nil { // shard 0 has them
			t.Fatal(err)
		}
		c.b.failed(ctx, 0, raysys.ErrNotDelivered)
		at := time.Now()
		if s, err := c.Sample(ctx, "t", 8); err != nil || s.Len() != 8 || time.Since(at) > leftAlone+2*time.Second { // virtual time
			t.Error(s.Len(), err, time.Since(at))
		}
	})
}

// TestCheckpointAside: a shard goes on while its checkpoint is written to a slow disk.
func TestCheckpointAside(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", MaxSize: 10}), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		if err := c.Insert(ctx, "t", []string{"a"}, nil); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 3; i++ {
			k.Cluster().DiskSlow(i, 5*time.Second)
		}
		done := make(chan error, 1)
		at := time.Now()
		go func() { done <- c.Checkpoint(ctx, "a") }()
		k.Advance(time.Second)
		if _, err := c.Sample(ctx, "t", 1); err != nil || time.Since(at) > 2*time.Second { // virtual time
			t.Error(err, time.Since(at))
		}
		if err := <-done; err != nil || time.Since(at) < 5*time.Second {
			t.Error(err, time.Since(at))
		}
	})
}

// TestTakenTwice: a Restore whose last call is made again, since the way broke, succeeds.
func TestTakenTwice(t *testing.T) {
	bytesOf(t, oneTable(Table{Name: "t", MaxSize: 10}), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		err := errors.Join(c.Insert(ctx, "t", []string{"a"}, nil), c.Checkpoint(ctx, "a"))
		m, bad := raysys.Lookup[manifest](ctx, c.b.manifest("a")).Get(ctx)
		if err = errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		part := saving{Name: c.b.part("a", m.ID, 0)}
		for _, part.Step = range []int{loadRead, loadTake, loadTake, loadRead, loadTake} {
			if _, err := c.b.d.load.Call(ctx, c.b.shard(0), part).Get(ctx); err != nil {
				t.Error(part.Step, err)
			}
		}
		part.Name = "other"
		if _, err := c.b.d.load.Call(ctx, c.b.shard(0), part).Get(ctx); !errors.Is(err, ErrCheckpoint) {
			t.Error(err)
		}
	})
}

// TestFailedCheckpoint: what a checkpoint has stored before it fails is removed.
func TestFailedCheckpoint(t *testing.T) {
	table := raysys.NewTable()
	cfg := oneTable(Table{Name: "t", MaxSize: 10})
	cfg.Shards = 8
	server := DefineIn[string](table, "experience", cfg)
	dir := t.TempDir()
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		ctx := k.Context()
		for i := 0; ; i++ { // until a shard is on the node without files
			if i == 20 {
				t.Fatal("no shard was on node 1")
			}
			c := server.Get(fmt.Sprint(i))
			for range cfg.Shards {
				if err := c.Insert(ctx, "t", []string{"a"}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if c.Checkpoint(ctx, "a") != nil {
				break
			}
			m, err := raysys.Lookup[manifest](ctx, c.b.manifest("a")).Get(ctx)
			if err := errors.Join(err, c.b.forget(ctx, "a", m), raysys.Forget(ctx, c.b.manifest("a"))); err != nil {
				t.Fatal(err)
			}
		}
		left := 0
		for range 100 {
			runtime.GC() // the node's own references end with it
			k.Advance(time.Second)
			list, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.obj"))
			if left = len(list); err != nil || left == 0 {
				break
			}
		}
		if left > 0 {
			t.Error(left, "files are left")
		}
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i != 1 {
			cfg.Objects.Spill = filepath.Join(dir, fmt.Sprint(i))
		}
	}))
}

// TestAppendHasItsOwnTime: batches that are on their way do not end with the ctx of the Append that sent them, and count once.
func TestAppendHasItsOwnTime(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 100, MaxTimesSampled: 1, Limiter: Queue(7)}
	bytesOf(t, oneTable(queue), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		w, err := c.Writer(NStep("q", 1))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 20 { // four batches, of which the second waits
			want = append(want, fmt.Sprint(i, strings.Repeat("x", 60_000)))
			short, cancel := context.WithTimeout(ctx, time.Second)
			if err := w.Append(short, want[i]); err != nil {
				t.Fatal(i, err)
			}
			k.Settle() // the shard has what there is room for
			cancel()
		}
		k.Advance(5 * time.Second)
		done := make(chan error, 1)
		go func() { done <- w.Flush(ctx) }()
		s, err := c.Sample(ctx, "q", len(want))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(s.Steps)
		if err := <-done; err != nil || !slices.Equal(s.Steps, want) {
			t.Error(s.Len(), err)
		}
		if info, err := c.Info(ctx); err != nil || info.Shards[0].Tables[0].Inserts != uint64(len(want)) {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestSamplerKeepsWhenCancelled: what a Next has taken when its ctx is cancelled is in the one after it.
func TestSamplerKeepsWhenCancelled(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(10)}
	bytesOf(t, oneTable(queue), func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		if err := c.Insert(ctx, "q", []string{"a", "b", "c"}, nil); err != nil {
			t.Fatal(err)
		}
		s := c.Sampler("q", 5, 0)
		short, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel) // it has three then
		if b, err := s.Next(short); !errors.Is(err, context.Canceled) {
			t.Error(b.Len(), err)
		}
		<-time.After(time.Second) // until the shard knows: its question would take these, too
		if err := c.Insert(ctx, "q", []string{"d", "e"}, nil); err != nil {
			t.Fatal(err)
		}
		long, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if b, err := s.Next(long); err != nil || strings.Join(b.Steps, "") != "abcde" {
			t.Error(b.Steps, err)
		}
	})
}

// TestWhatIsLeft: an insert of several batches that ends early says which items are not in, also where a later batch went to a shard that took it.
func TestWhatIsLeft(t *testing.T) {
	queue := Table{Name: "q", Sampler: FIFO, MaxSize: 10, MaxTimesSampled: 1, Limiter: Queue(3)}
	bytesOf(t, Config{Tables: []Table{queue}, Shards: 2}, func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
		large := func(i int) string { return strings.Repeat(string(rune('a'+i)), batchBytes/4) }
		var items []string
		for i := range 17 { // four make a batch, of which a shard takes three
			items = append(items, large(i))
		}
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		shut := shutIn(c.Insert(short, "q", items, nil))
		if shut == nil {
			t.Fatal("it takes all")
		}
		in := map[string]bool{}
		b, err := c.Sample(ctx, "q", shut.Done)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range b.Steps {
			in[x[:1]] = true
		}
		for _, i := range shut.Left {
			if in[items[i][:1]] {
				t.Errorf("item %d is in", i)
			}
		}
		if len(in) != shut.Done || shut.Done+len(shut.Left) != len(items) {
			t.Errorf("%d are in, of %+v", len(in), shut)
		}
	})
}
