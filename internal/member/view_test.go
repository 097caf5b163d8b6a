package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

func (c *cluster) lead(name string, shard int) {
	c.t.Helper()
	value := fmt.Sprintf(`{"node":%q}`, name)
	if _, err := c.kv.Txn(context.Background(), []store.Op{store.Lock(shardlog.LeaderKey(shard), []byte(value), c.member(name).Session())}); err != nil {
		c.t.Fatal(err)
	}
	c.settle()
}

func TestLeaders(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		if l, ok := c.member("a").View().Leader(7); ok {
			t.Errorf("shard 7 is led by %+v", l)
		}
		c.lead("b", 7)
		c.lead("a", 3)
		p, _ := c.kv.Get(context.Background(), shardlog.LeaderKey(7))
		for _, name := range []string{"a", "b"} {
			v := c.member(name).View()
			want := member.Leader{Shard: 7, Epoch: p.Create, Node: "b", Incarnation: c.member("b").Incarnation()}
			got, ok := v.Leader(7)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(member.Leader{})); !ok || diff != "" {
				t.Errorf("%s: shard 7 (-want +got):\n%s", name, diff)
			}
			if len(v.Leaders()) != 2 {
				t.Errorf("%s: leaders are %+v", name, v.Leaders())
			}
		}
		before := c.member("a").View()
		c.kill("b")
		if l, ok := c.member("a").View().Leader(7); ok {
			t.Errorf("shard 7 is led by %+v, which is dead", l)
		}
		<-before.Changed()
		if _, ok := before.Leader(7); !ok {
			t.Error("an old view changed")
		}
		c.lead("a", 7)
		if l, ok := c.member("a").View().Leader(7); !ok || l.Node != "a" || l.Epoch <= p.Create {
			t.Errorf("shard 7 is led by %+v, after epoch %d", l, p.Create)
		}
	})
}

// TestOneWatchEach: nodes/ and leaders/ are watched, once each, and nothing else; what is written elsewhere wakes nobody (C13).
func TestOneWatchEach(t *testing.T) {
	virtual(t, func(c *cluster) {
		n, cfg := c.prepare("a")
		watches := map[string]int{}
		var mu sync.Mutex
		n.kv.Hook(func(call flaky.Call) flaky.Fault {
			mu.Lock()
			defer mu.Unlock()
			if call.Verb == "Watch" {
				watches[call.Key]++
			}
			return flaky.None
		})
		m, err := member.Join(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.add(n, m)
		c.settle()
		for i := range 100 {
			c.set(fmt.Sprintf("log/00/%d", i), "segment")
			c.set(fmt.Sprintf("snap/00/%d", i), "part")
			c.settle()
		}
		c.pass(3 * ttl)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(map[string]int{"nodes/": 1, "leaders/": 1}, watches); diff != "" {
			t.Errorf("watches (-want +got):\n%s", diff)
		}
	})
}

// TestWatchesResume: a broken connection loses no change, and costs a pause that grows.
func TestWatchesResume(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience = 9
		c.join("a", "b")
		n := c.node("a")
		n.kv.Down(true)
		calls := n.kv.Calls()
		c.pass(time.Minute)
		if made := n.kv.Calls() - calls; made < 30 || made > 500 {
			t.Errorf("%d calls in a minute without the store", made)
		}
		if got := c.names("a"); len(got) != 2 {
			t.Errorf("without the store it sees %v", got)
		}
		c.join("c")
		c.tell([]string{"leave", "b"})
		n.kv.Down(false)
		c.pass(2 * time.Second)
		if got := c.names("a"); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("with the store back it sees %v", got)
		}
	})
}

// backward is a store whose next watch answers as one that lags, or was restored, does.
type backward struct {
	store.KV
	pairs []store.Pair
	index uint64
	once  chan struct{} // holds a token while such an answer is due
}

func (k *backward) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	if prefix == "nodes/" {
		select {
		case <-k.once:
			return k.pairs, k.index, nil
		default:
		}
	}
	return k.KV.Watch(ctx, prefix, after)
}

// TestIndexGoesBack: what a server says that lags is not believed without asking.
func TestIndexGoesBack(t *testing.T) {
	virtual(t, func(c *cluster) {
		var k *backward
		c.join("b", "c")
		c.joinAs("a", func(cfg *member.Config) {
			k = &backward{KV: cfg.KV, once: make(chan struct{}, 1)}
			cfg.KV = k
		})
		pairs, index, err := c.kv.List(context.Background(), "nodes/", store.Consistent)
		if err != nil {
			t.Fatal(err)
		}
		k.pairs, k.index = pairs[:2], index-1 // a and b; c was not there then
		var seen [][]string
		watch := func() { seen = append(seen, c.names("a")) }
		watch()
		k.once <- struct{}{}
		c.join("d") // wakes the watch; the next one is answered by the server that lags
		watch()
		c.pass(ttl)
		watch()
		c.tell([]string{"leave", "b"})
		watch()
		want := [][]string{{"a", "b", "c"}, {"a", "b", "c", "d"}, {"a", "b", "c", "d"}, {"a", "c", "d"}}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
		if len(k.once) > 0 {
			t.Error("no watch was answered from the past")
		}
	})
}

// TestConfirm: who is not in the view is looked up once, and then refused (C18).
func TestConfirm(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		a, b, ctx := c.member("a"), c.member("b"), context.Background()
		confirm := func(id raysys.NodeID, incarnation uint64) (int, error) {
			calls := c.node("a").kv.Calls()
			n, err := a.Confirm(ctx, id, incarnation)
			if err == nil && (n.ID != id || n.Incarnation != incarnation) {
				t.Errorf("asked for %s, %d it says %+v", id, incarnation, n)
			}
			return c.node("a").kv.Calls() - calls, err
		}
		if reads, err := confirm("b", b.Incarnation()); reads != 0 || err != nil {
			t.Errorf("one that it knows: %d reads, %v", reads, err)
		}
		if reads, err := confirm("b", b.Incarnation()-1); reads != 0 || !errors.Is(err, raysys.ErrNodeDead) {
			t.Errorf("a former life: %d reads, %v", reads, err)
		}
		for _, stranger := range []raysys.NodeID{"z", "", "/"} {
			if reads, err := confirm(stranger, 7); reads > 1 || !errors.Is(err, raysys.ErrNodeDead) {
				t.Errorf("stranger %q: %d reads, %v", stranger, reads, err)
			}
		}
		c.node("a").gate.shut() // the watch does not bring c
		c.join("c")
		if reads, err := confirm("c", c.member("c").Incarnation()); reads != 1 || err != nil {
			t.Errorf("one that just joined: %d reads, %v", reads, err)
		}
		if err := b.Update(ctx, func(i *member.Info) { i.KeyPrint = "new" }); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Confirm(ctx, "b", b.Incarnation()); n.KeyPrint != "" || err != nil {
			t.Errorf("the view has the key %q before the watch brings it, %v", n.KeyPrint, err)
		}
		if n, err := a.Fetch(ctx, "b", b.Incarnation()); n.KeyPrint != "new" || err != nil {
			t.Errorf("the store has the key %q, %v", n.KeyPrint, err)
		}
		if _, err := a.Fetch(ctx, "b", b.Incarnation()-1); !errors.Is(err, raysys.ErrNodeDead) {
			t.Errorf("the store knows a former life: %v", err)
		}
		c.node("a").kv.Down(true)
		if _, err := confirm("c", c.member("c").Incarnation()); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, raysys.ErrNodeDead) {
			t.Errorf("without the store: %v", err)
		}
	})
}

// TestComing: what the view cannot know yet is told from what is dead.
func TestComing(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		b := c.member("b").Incarnation()
		coming := func(what string, id raysys.NodeID, incarnation uint64, want bool) {
			t.Helper()
			if got := c.member("a").View().Coming(id, incarnation); got != want {
				t.Errorf("%s: %t", what, got)
			}
		}
		coming("one that it knows", "b", b, false)
		coming("a former life", "b", b-1, false)
		coming("a stranger of long ago", "z", 1, false)
		c.node("a").gate.shut()
		c.join("c")
		if err := c.member("b").Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.join("b")
		coming("one that just joined", "c", c.member("c").Incarnation(), true)
		coming("a further life", "b", c.member("b").Incarnation(), true)
		coming("the life it knows", "b", b, false)
		c.node("a").gate.open()
		c.settle()
		coming("one that it knows by now", "c", c.member("c").Incarnation(), false)
		coming("the life before", "b", b, false)
		last := c.member("c").Incarnation()
		if err := c.member("c").Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.settle()
		coming("one that left", "c", last, false)
	})
}

func TestUpdate(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		b := c.member("b")
		info := member.Info{
			ID: "b", Address: "b:1", Draining: true, Version: "v2", Labels: map[string]string{"zone": "x"},
			Resources: raysys.Resources{CPU: 4, Custom: map[string]float64{"licence": 2}}, Functions: "f", KeyPrint: "k", Started: c.begun,
		}
		if err := b.Update(context.Background(), func(i *member.Info) { *i = info }); err != nil {
			t.Fatal(err)
		}
		c.settle()
		info.Role = member.Worker
		n, _ := c.member("a").View().Node("b")
		if diff := cmp.Diff(member.Node{Info: info, Incarnation: b.Incarnation(), TTL: ttl}, n, cmpopts.IgnoreUnexported(member.Node{})); diff != "" {
			t.Errorf("a sees b (-want +got):\n%s", diff)
		}
		info.ID = "c"
		if err := b.Update(context.Background(), func(i *member.Info) { *i = info }); err == nil {
			t.Error("b could become c")
		}
		info.ID, info.Labels = "b", map[string]string{"x": strings.Repeat("y", 70<<10)}
		if err := b.Update(context.Background(), func(i *member.Info) { *i = info }); err == nil {
			t.Error("a record may have any size")
		}
		c.tell([]string{"expire", "b"})
		if err := b.Update(context.Background(), func(i *member.Info) { i.Draining = false }); err == nil {
			t.Error("a node without a session wrote its record")
		}
	})
}

func TestLeave(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		c.lead("b", 1)
		b := c.member("b")
		v := b.View()
		if err := b.Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if got := c.names("a"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("a sees %v", got)
		}
		if _, ok := c.member("a").View().Leader(1); ok {
			t.Error("it still leads")
		}
		<-b.Done()
		<-v.Changed()
		if b.State() != member.Left || b.Lease() != 0 || b.Err() == nil {
			t.Errorf("it is %v with a lease of %v, %v", b.State(), b.Lease(), b.Err())
		}
		if err := b.Leave(context.Background()); err != nil {
			t.Errorf("leaving again: %v", err)
		}
		c.node("a").kv.Down(true)
		if err := c.member("a").Leave(context.Background()); err == nil {
			t.Error("the store did not hear of it, and nobody says so")
		}
	})
}
