package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// logbook is a kind whose handlers fail for as long as a test wants, and that lists what it has taken, in memory of the process.
type logbook struct{}

var (
	notes    = stream.Define[int]("notes")
	logbooks = grains.Define[logbook]("logbook")
	_        = stream.Into(notes, logbooks, (*logbook).OnNote)

	parcels = stream.Define[string]("parcels")
	_       = stream.Into(parcels, logbooks, (*logbook).OnParcel, stream.OnError(stream.Retry(3, time.Millisecond), stream.Park))
	letters = stream.Define[string]("letters")
	_       = stream.Into(letters, logbooks, (*logbook).OnParcel, stream.OnError(stream.Drop))

	broken atomic.Bool // handlers of the key "bad" fail
	tries  atomic.Int64
	books  sync.Map // of *book, by test and key
)

type book struct {
	mu   sync.Mutex
	list []string
}

func write(key, what string) {
	v, _ := books.LoadOrStore(key, &book{})
	b := v.(*book)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, what)
}

func written(key string) []string {
	v, ok := books.Load(key)
	if !ok {
		return nil
	}
	b := v.(*book)
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list)
}

var errBroken = errors.New("broken for now")

func (*logbook) OnNote(_ context.Context, e stream.Event[int]) error {
	if strings.HasSuffix(e.Key, "bad") && broken.Load() {
		tries.Add(1)
		return errBroken
	}
	write(e.Key, fmt.Sprint(e.Value))
	return nil
}

func (*logbook) OnParcel(_ context.Context, e stream.Event[string]) error {
	if e.Value == "bomb" {
		tries.Add(1)
		return errBroken
	}
	write(e.Key, e.Value)
	return nil
}

func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, what, f)
}

// TestFailingHandler: while the handler of one grain fails, its events wait, in the bus where they are many, and others go on. Then all of
// them come in their order.
func TestFailingHandler(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), inMemory(t))
	ctx := k.Context()
	broken.Store(true)
	defer broken.Store(false)
	const many = 1500
	list := make([]int, many)
	for i := range list {
		list[i] = i
	}
	bad, good := t.Name()+" bad", t.Name()+" good"
	if err := notes.PublishAll(ctx, bad, list); err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // in all parts
		if err := notes.PublishAll(ctx, good+fmt.Sprint(i), list[:20]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		await(t, "others go on", func() bool { return len(written(good+fmt.Sprint(i))) == 20 })
	}
	await(t, "it is tried again", func() bool { return tries.Load() > 2 })
	if got := written(bad); got != nil {
		t.Fatal(got)
	}
	broken.Store(false)
	await(t, "what has waited comes", func() bool { return len(written(bad)) >= many })
	for i, v := range written(bad) {
		if v != fmt.Sprint(i) {
			t.Fatal(i, v)
		}
	}
}

// TestPark: an event that no attempt could deliver is in the stream of parked ones, with the reason, and the next one comes. So is one
// that cannot be read. Drop leaves it out.
func TestPark(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1), inMemory(t))
	ctx := k.Context()
	key := t.Name()
	for _, s := range []string{"book", "bomb", "lamp"} {
		if _, err := parcels.Publish(ctx, key, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := parcels.PublishRaw(ctx, key, []byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if _, err := parcels.Publish(ctx, key, "last"); err != nil {
		t.Fatal(err)
	}
	await(t, "the last one comes", func() bool { return slices.Equal(written(key), []string{"book", "lamp", "last"}) })
	if tries.Load() != 3 {
		t.Fatal("attempts:", tries.Load())
	}
	n := 0
	for e, err := range parcels.Parked().Read(ctx, key, stream.ToEnd()) {
		switch n++; n {
		case 1:
			if err != nil || e.Value != "bomb" || !strings.Contains(e.Reason, "event 2: ") || !strings.Contains(e.Reason, errBroken.Error()) {
				t.Fatal(e, err)
			}
		case 2:
			if !errors.Is(err, stream.ErrUnreadable) || len(e.Data) != 2 || !strings.Contains(e.Reason, "event 4: ") {
				t.Fatal(e, err)
			}
		}
	}
	if n != 2 {
		t.Fatal(n, "are parked")
	}
	for _, s := range []string{"bomb", "dropped before this"} {
		if _, err := letters.Publish(ctx, key+" letters", s); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "what comes after a dropped one", func() bool { return len(written(key+" letters")) == 1 })
}

// purse is an account that can lose its State.
type purse struct {
	Sum grains.State[int]
	stream.Cursor
}

var (
	coins  = stream.Define[int]("coins")
	purses = grains.Define[purse]("purse", grains.Durable())
	_      = stream.Into(coins, purses, (*purse).OnCoin)
	sum    = grains.Method0(purses, "sum", func(p *purse, _ context.Context) (int, error) { return p.Sum.Value, nil }).ReadOnly()
	lose   = grains.Action0(purses, "lose", (*purse).Lose)
	spend  = grains.Method(purses, "spend", (*purse).Spend)
	spent  = stream.Define[int]("spent")
	_      = stream.Into(spent, logbooks, (*logbook).OnNote)
)

func (p *purse) OnCoin(_ context.Context, e stream.Event[int]) error {
	p.Sum.Value += e.Value
	return nil
}

func (p *purse) Lose(ctx context.Context) error { return errors.Join(p.Sum.Clear(ctx), p.Forget(ctx)) }

func (p *purse) Spend(ctx context.Context, n int) (int, error) {
	p.Sum.Value -= n
	if _, err := spent.Publish(ctx, "spent "+fmt.Sprint(n), n); err != nil {
		return 0, err
	}
	if p.Sum.Value < 0 {
		return 0, errors.New("there is not so much in it")
	}
	return p.Sum.Value, nil
}

// TestParkWithCursor: a grain with a Cursor goes on behind an event that was parked, dropped or could not be read.
func TestParkWithCursor(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1), inMemory(t))
	ctx := k.Context()
	for _, s := range []stream.Stream[int]{fines, tolls} {
		for _, n := range []int{1, -1, 2} {
			if _, err := s.Publish(ctx, "dora", n); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.PublishRaw(ctx, "dora", []byte{0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Publish(ctx, "dora", 4); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, ctx, "what is positive", func(ctx context.Context) (int, error) { return sum.Call(ctx, purses.Get("dora")).Get(ctx) }, 14)
	for s, want := range map[*stream.Stream[int]]int{&fines: 2, &tolls: 1} {
		n := 0
		for e := range s.Parked().Read(ctx, "dora", stream.ToEnd()) {
			if n++; e.Reason == "" {
				t.Fatal(e)
			}
		}
		if n != want {
			t.Fatal(s.Name(), n, "are parked, not", want)
		}
	}
}

var (
	fines = stream.Define[int]("fines")
	_     = stream.Into(fines, purses, (*purse).OnFine, stream.OnError(stream.Retry(2, time.Millisecond), stream.Park))
	tolls = stream.Define[int]("tolls")
	_     = stream.Into(tolls, purses, (*purse).OnFine, stream.OnError(stream.Drop))
)

func (p *purse) OnFine(_ context.Context, e stream.Event[int]) error {
	if e.Value < 0 {
		return errBroken
	}
	p.Sum.Value += e.Value
	return nil
}

// TestLostState: a grain that lost its State gets the events again.
func TestLostState(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), inMemory(t))
	ctx := k.Context()
	alice := purses.Get("alice")
	total := func(ctx context.Context) (int, error) { return sum.Call(ctx, alice).Get(ctx) }
	if err := coins.PublishAll(ctx, "alice", []int{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "the coins", total, 6)
	if _, err := lose.Call(ctx, alice).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := coins.Publish(ctx, "alice", 4); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "all coins", total, 10)
}

// TestPublishInATurn: what a turn of a Durable grain publishes leaves when the turn is stored, and does not leave where it fails.
func TestPublishInATurn(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), inMemory(t))
	ctx := k.Context()
	if _, err := coins.Publish(ctx, "bob", 10); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "the coin", func(ctx context.Context) (int, error) { return sum.Call(ctx, purses.Get("bob")).Get(ctx) }, 10)
	if _, err := spend.Call(ctx, purses.Get("bob"), 70).Get(ctx); err == nil {
		t.Fatal("spent too much")
	}
	if left, err := spend.Call(ctx, purses.Get("bob"), 7).Get(ctx); err != nil || left != 3 {
		t.Fatal(left, err)
	}
	await(t, "the event of the turn", func() bool { return len(written("spent 7")) == 1 })
	if got := written("spent 70"); got != nil {
		t.Fatal("published by a turn that failed:", got)
	}
}

// TestExactlyOnce: while nodes die, drain and come back, each event counts once in a Durable grain with a Cursor.
func TestExactlyOnce(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(4), inMemory(t))
	ctx := k.Context()
	want := make([]int, 20)
	publish := func(n int) {
		for i := range n {
			key := i % len(want)
			if _, err := coins.Publish(ctx, fmt.Sprint("key", key), i); err != nil {
				t.Fatal(err)
			}
			want[key] += i
		}
	}
	publish(200)
	k.Cluster().Kill(1)
	publish(200)
	k.Cluster().Drain(2)
	publish(200)
	k.Cluster().Restart(1)
	k.Cluster().Restart(2)
	publish(200)
	k.Cluster().ExpireSession(3)
	publish(200)
	for i, w := range want {
		g := purses.Get(fmt.Sprint("key", i))
		eventually(t, ctx, g.String(), func(ctx context.Context) (int, error) { return sum.Call(ctx, g).Get(ctx) }, w)
	}
	if _, err := sum.Call(ctx, purses.Get("key0")).Get(ctx); err != nil && !errors.Is(err, raysys.ErrMoved) {
		t.Fatal(err)
	}
}

// TestMadeAgain: when a stream was removed and is made again, its first events are delivered, though their numbers were those of others.
func TestMadeAgain(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		total := func(ctx context.Context) (int, error) { return sum.Call(ctx, purses.Get("erna")).Get(ctx) }
		if err := coins.PublishAll(ctx, "erna", []int{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, "the first coins", total, 6)
		k.Advance(5 * time.Second) // the floor is stored
		if err := coins.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		if err := coins.PublishAll(ctx, "erna", []int{10, 20}); err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, "the coins of the new stream", total, 36)
	}, testkit.Nodes(2), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = "memory:again" }))
}

// TestToPanics: an event for which To panics, or chooses a key that no grain has, is parked.
func TestToPanics(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1), inMemory(t))
	ctx := k.Context()
	for _, n := range []int{1, -1, -2, 2} {
		if _, err := routed.Publish(ctx, "fritz", n); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, ctx, "what has a grain", func(ctx context.Context) (int, error) { return sum.Call(ctx, purses.Get("routed")).Get(ctx) }, 3)
	n := 0
	await(t, "two are parked", func() bool {
		n = 0
		for e := range routed.Parked().Read(ctx, "fritz", stream.ToEnd()) {
			if n++; !strings.Contains(e.Reason, "To panicked") && !strings.Contains(e.Reason, "To chooses a key") {
				t.Fatal(e.Reason)
			}
		}
		return n == 2
	})
}

var (
	routed = stream.Define[int]("routed")
	_      = stream.Into(routed, purses, (*purse).OnCoin, stream.To(func(e stream.Event[int]) string {
		switch e.Value {
		case -1:
			panic("no way")
		case -2:
			return strings.Repeat("x", 2000)
		}
		return "routed"
	}))
)

// TestVirtualTime: in virtual time streams are in memory, too.
func TestVirtualTime(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		if _, err := coins.Publish(ctx, "carol", 5); err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, "the coin", func(ctx context.Context) (int, error) { return sum.Call(ctx, purses.Get("carol")).Get(ctx) }, 5)
	}, testkit.Nodes(2), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL = "memory:virtual" }))
}

// TestStreamsOfNodes: the nodes tell how far they are.
func TestStreamsOfNodes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), inMemory(t))
	ctx := k.Context()
	broken.Store(true)
	defer broken.Store(false)
	key := t.Name() + " bad"
	if err := notes.PublishAll(ctx, key, []int{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	var all []inspect.StreamPart
	await(t, "one grain fails, and three events wait", func() bool {
		s, err := k.Cluster().Node(0).Streams(ctx)
		if err != nil || len(s.Silent) > 0 {
			return false
		}
		all = slices.DeleteFunc(s.Parts, func(p inspect.StreamPart) bool { return p.Stream != "notes" })
		failing, lag := 0, uint64(0)
		for _, p := range all {
			failing, lag = failing+p.Failing, lag+p.Lag
		}
		return len(all) == 16 && failing == 1 && lag == 3
	})
	for i, p := range all {
		if p.Part != i || p.To != "logbook" || p.Node == "" || p.Namespace == "" {
			t.Fatalf("%+v", p)
		}
	}
}
