package system_test

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
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
)

type (
	// crier is a durable grain that tells others something; others are its receivers.
	crier   struct{ n grains.State[int] }
	hearer  struct{}
	journal struct{ heard grains.State[[]int] }
)

// allDeaf has no hearer and no journal start.
var allDeaf atomic.Bool

func (*hearer) OnActivate(context.Context) error  { return startHearing() }
func (*journal) OnActivate(context.Context) error { return startHearing() }

func startHearing() error {
	if allDeaf.Load() {
		return errors.New("deaf by test")
	}
	return nil
}

// crowd is a program without a cluster, whose criers tell hearers and journals something.
type crowd struct {
	table *raysys.Table
	kind  grains.Kind[crier]
	cry   grains.Act[crier, int] // so often
	books grains.Kind[journal]
	read  grains.Func0[journal, []int]

	mu    sync.Mutex // guards the rest
	heard []int
}

func newCrowd(deaf bool) *crowd {
	c := &crowd{table: raysys.NewTable()}
	hearers := grains.DefineIn[hearer](c.table, "hearer")
	hear := grains.Action(hearers, "hear", func(_ *hearer, ctx context.Context, n int) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard = append(c.heard, n)
		return nil
	})
	journals := grains.DefineIn[journal](c.table, "journal", grains.Durable())
	allDeaf.Store(deaf)
	write := grains.Action(journals, "write", func(j *journal, _ context.Context, n int) error {
		j.heard.Value = append(j.heard.Value, n)
		return nil
	})
	c.books = journals
	c.read = grains.Method0(journals, "read", func(j *journal, _ context.Context) ([]int, error) {
		return j.heard.Value, nil
	}).ReadOnly()
	c.kind = grains.DefineIn[crier](c.table, "crier", grains.Durable(), grains.IdleAfter(time.Second))
	c.cry = grains.Action(c.kind, "cry", func(g *crier, ctx context.Context, n int) error {
		for range n {
			g.n.Value++
			if err := hear.Tell(ctx, hearers.Get("r"), g.n.Value); err != nil {
				return err
			}
		}
		return write.Tell(ctx, journals.Get("r"), g.n.Value)
	})
	return c
}

// start starts the program over a data directory.
func (c *crowd) start(t *testing.T, data string) (*system.Node, context.Context) {
	t.Helper()
	n, err := system.New(system.Config{Table: c.table, Data: data, Namespace: "test"})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n, n.Context(t.Context())
}

// hears expects the numbers first to last, each once.
func (c *crowd) hears(t *testing.T, first, last int) {
	t.Helper()
	nodetest.Eventually(t, fmt.Sprintf("%d to %d arrive", first, last), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.heard) > last-first
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range c.heard {
		if n != first+i || n > last {
			t.Fatalf("the message that comes as number %d says %d; the first is %d, the last %d", i, n, first, last)
		}
	}
	c.heard = nil
}

// storedMessages counts the messages in the data directory of a process that has ended.
func storedMessages(t *testing.T, data string) (n int) {
	t.Helper()
	kv, err := embedded.Open(embedded.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kv.Close() }()
	layout, err := shardlog.OpenLayout(t.Context(), kv, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	session, err := kv.NewSession(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i := range layout.Shards {
		s, err := shardlog.Lead(t.Context(), shardlog.LeadConfig{KV: kv, Shard: i, Session: session, Node: "test"})
		if err != nil {
			t.Fatal(err)
		}
		s.Scan(string(graindir.SideOutbox)+"/", func(string, shardlog.Record) bool { n++; return true })
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return n
}

// TestMessagesOutliveTheProcess: what a durable grain told others in a program without a cluster arrives in its next
// process over the same data directory, without a call, once; as many as a turn may have, and also where its receiver
// could not be activated in the first one.
func TestMessagesOutliveTheProcess(t *testing.T) {
	const many = 1023
	data := t.TempDir()
	deaf := newCrowd(true)
	n, ctx := deaf.start(t, data)
	end := func(left int) {
		t.Helper()
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := storedMessages(t, data); got != left {
			t.Errorf("%d messages are stored, want %d", got, left)
		}
	}
	if _, err := deaf.cry.Call(ctx, deaf.kind.Get("x"), many).Get(ctx); err != nil {
		t.Fatal(err)
	}
	end(many + 1)
	c := newCrowd(false)
	n, ctx = c.start(t, data)
	c.hears(t, 1, many)
	nodetest.Eventually(t, "the durable one hears", func() bool {
		list, err := c.read.Call(ctx, c.books.Get("r")).Get(ctx)
		return err == nil && slices.Equal(list, []int{many})
	})
	end(0)
}

// TestMessagesOfALongName: the messages of a turn count with the name of their grain, so what a turn may tell others
// fits a commit, whatever the name.
func TestMessagesOfALongName(t *testing.T) {
	c := newCrowd(false)
	n, ctx := c.start(t, t.TempDir())
	defer func() { _ = n.Close(context.Background()) }()
	x := c.kind.Get(strings.Repeat("k", grainengine.MaxKey))
	// 400 KB of names alone: the Tell fails, and not the commit, which would take the turns behind it along.
	_, err := c.cry.Call(ctx, x, 400).Get(ctx)
	if !errors.Is(err, raysys.ErrTooLarge) || !strings.Contains(err.Error(), "what the turn tells others") {
		t.Errorf("%v", err)
	}
	if _, err := c.cry.Call(ctx, x, 100).Get(ctx); err != nil {
		t.Fatal(err)
	}
	c.hears(t, 1, 100)
}
