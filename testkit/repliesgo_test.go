package testkit_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// wallet is a durable grain; a call names the size of its reply.
type wallet struct{ paid grains.State[int] }

type wallets struct {
	kind grains.Kind[wallet]
	pay  grains.Func[wallet, int, []byte]
	last grains.Func[wallet, int, []byte] // the same, and the activation ends
	sum  grains.Func0[wallet, int]
}

func newWallets(table *raysys.Table) (p wallets) {
	p.kind = grains.DefineIn[wallet](table, "wallet", grains.Durable())
	pay := func(g *wallet, _ context.Context, size int) ([]byte, error) {
		g.paid.Value++
		return make([]byte, size), nil
	}
	p.pay = grains.Method(p.kind, "pay", pay)
	p.last = grains.Method(p.kind, "last", func(g *wallet, ctx context.Context, size int) ([]byte, error) {
		b, _ := pay(g, ctx, size)
		return b, grains.Deactivate(ctx)
	})
	p.sum = grains.Method0(p.kind, "sum", func(g *wallet, _ context.Context) (int, error) { return g.paid.Value, nil }).ReadOnly()
	return p
}

// The short forms have replies of which 26 fill the room, the long ones 4,096.
func walletReply() int { return long.Form(20_000, 8) }
func walletCalls() int { return long.Form(200, 20_000) }
func walletBatch() int { return long.Form(8, 200) }

// TestReplyNotesLost: a grain whose activation ends with every fourth call goes on, in one process and on three nodes: the notes that a
// driver has its replies find no activation.
func TestReplyNotesLost(t *testing.T) {
	for name, opts := range map[string][]testkit.Option{"alone": nil, "three nodes": {testkit.Nodes(3)}} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			p := newWallets(table)
			k := testkit.New(t, append(opts, testkit.Loose(), testkit.Table(table))...)
			ctx, g := k.Context(), p.kind.Get("x")
			for i := range walletCalls() {
				m := p.pay
				if i%4 == 3 {
					m = p.last
				}
				if _, err := m.Call(ctx, g, walletReply()).Get(ctx); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if n, err := p.sum.Call(ctx, g).Get(ctx); n != walletCalls() || err != nil {
				t.Error(n, err)
			}
		})
	}
}

// TestDrainsUnderCalls: nodes are drained and come back, again and again, under batches of calls of one driver. Each call counts once.
func TestDrainsUnderCalls(t *testing.T) {
	table := raysys.NewTable()
	p := newWallets(table)
	k := testkit.New(t, testkit.Loose(), testkit.Table(table), testkit.Nodes(3))
	c := k.Cluster()
	c.Ready()
	ctx, g := k.Context(), p.kind.Get("x")
	stop, done := make(chan struct{}), make(chan error, 1)
	calls := 0
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			refs := make([]raysys.Ref[[]byte], walletBatch())
			for i := range refs {
				refs[i] = p.pay.Call(ctx, g, walletReply())
			}
			calls += len(refs)
			for _, r := range refs {
				if _, err := r.Get(ctx); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	drains := long.Form(30, 300)
	for i := range drains {
		c.Drain(i%3 + 1)
		c.Restart(i%3 + 1)
		c.Ready()
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatalf("within %d drains and %d calls: %v", drains, calls, err)
	}
	if n, err := p.sum.Call(ctx, g).Get(ctx); n != calls || err != nil {
		t.Errorf("%d calls counted, %v; %d were made", n, err, calls)
	}
}
