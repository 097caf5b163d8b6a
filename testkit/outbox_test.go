package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// herald is a durable grain that tells others something, and stores how often.
type herald struct{ N grains.State[int] }

// chronicle is a durable receiver, which stores what it has heard, by sender.
type chronicle struct {
	Heard grains.State[map[string][]int]
}

// bystander is a plain receiver.
type bystander struct{}

// news is what a herald tells.
type news struct {
	From string
	N    int
}

// hearings are what the receivers of a test have heard.
type hearings struct {
	mu    sync.Mutex // guards the rest
	plain map[string][]int
	wait  chan struct{} // plain receivers wait for it; nil: they do not
	life  int           // of the cluster: who waits while it ends has heard nothing
}

var hearingsNow *hearings

func (*bystander) Hear(_ context.Context, n news) error {
	p := hearingsNow
	p.mu.Lock()
	wait, life := p.wait, p.life
	p.mu.Unlock()
	if wait != nil {
		<-wait
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == life {
		p.plain[n.From] = append(p.plain[n.From], n.N)
	}
	return nil
}

// firsts is list without what came again.
func firsts(list []int) (out []int) {
	for _, n := range list {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// TestMessagesOfDurableGrains: whichever nodes die, lead shards, drain or are cut off, and also where all die at once, what turns that counted have
// told others arrives without a further call, in the order of its sender, at durable grains once.
func TestMessagesOfDurableGrains(t *testing.T) {
	table := raysys.NewTable()
	bystanders := grains.DefineIn[bystander](table, "bystander")
	hear := grains.Action(bystanders, "hear", (*bystander).Hear)
	chronicles := grains.DefineIn[chronicle](table, "chronicle", grains.Durable())
	enter := grains.Action(chronicles, "enter", func(c *chronicle, _ context.Context, n news) error {
		if c.Heard.Value == nil {
			c.Heard.Value = map[string][]int{}
		}
		c.Heard.Value[n.From] = append(c.Heard.Value[n.From], n.N)
		return nil
	})
	heard := grains.Method0(chronicles, "heard", func(c *chronicle, _ context.Context) (map[string][]int, error) { return c.Heard.Value, nil }).ReadOnly()
	kind := grains.DefineIn[herald](table, "herald", grains.Durable())
	tell := grains.Action0(kind, "tell", func(h *herald, ctx context.Context) error {
		id, _ := grains.Self(ctx)
		h.N.Value++
		n := news{id.Key, h.N.Value}
		return errors.Join(hear.Tell(ctx, bystanders.Get(id.Key), n), enter.Tell(ctx, chronicles.Get(id.Key[:1]), n))
	})
	told := grains.Method0(kind, "told", func(h *herald, _ context.Context) (int, error) { return h.N.Value, nil }).ReadOnly()
	for _, seed := range long.Seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				const senders, ttl = 40, 10 * time.Second
				p := &hearings{plain: map[string][]int{}}
				hearingsNow = p
				c, ctx := k.Cluster(), k.Context()
				c.Ready()
				stop := make(chan struct{})
				var callers sync.WaitGroup
				for i := range uint64(4) {
					callers.Go(func() {
						rnd := rand.New(rand.NewPCG(k.Seed(), i))
						for {
							select {
							case <-stop:
								return
							case <-time.After(time.Duration(rnd.IntN(50)) * time.Millisecond):
							}
							_, _ = tell.Call(ctx, kind.Get(fmt.Sprint(rnd.IntN(senders)))).Get(ctx) // also where it fails it may have counted
						}
					})
				}
				k.Advance(3 * time.Second)
				for i := range uint64(2) {
					c.Play(testkit.DrawPlan(k.Seed()+i, 4, ttl, 20*time.Second, testkit.FaultKill, testkit.FaultDrain, testkit.FaultPartition, testkit.FaultReset))
					c.Heal()
					k.Advance(ttl + 2*time.Second)
				}
				close(stop)
				callers.Wait()
				k.Advance(ttl)
				p.mu.Lock()
				p.wait = make(chan struct{})
				p.mu.Unlock()
				for i := range senders {
					if _, err := tell.Call(ctx, kind.Get(fmt.Sprint(i))).Get(ctx); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 4 {
					c.Kill(i + 1)
				}
				p.mu.Lock()
				p.life++
				close(p.wait)
				p.wait = nil
				p.mu.Unlock()
				for i := range 4 {
					c.Restart(i + 1)
				}
				c.Ready()
				k.Advance(ttl + 45*time.Second)
				p.mu.Lock()
				plain := map[string][]int{}
				for from, list := range p.plain {
					plain[from] = firsts(list)
				}
				p.mu.Unlock()
				for i := range senders {
					from := fmt.Sprint(i)
					n, err := told.Call(ctx, kind.Get(from)).Get(ctx)
					if err != nil {
						t.Fatal(err)
					}
					all, err := heard.Call(ctx, chronicles.Get(from[:1])).Get(ctx)
					if err != nil {
						t.Fatal(err)
					}
					var want []int
					for i := range n {
						want = append(want, i+1)
					}
					if !slices.Equal(plain[from], want) {
						t.Errorf("a plain grain has heard %v of the %d messages of %s", plain[from], n, from)
					}
					if !slices.Equal(all[from], want) {
						t.Errorf("a durable grain has heard %v of the %d messages of %s", all[from], n, from)
					}
				}
			}, testkit.Table(table), testkit.Nodes(4))
		})
	}
}
