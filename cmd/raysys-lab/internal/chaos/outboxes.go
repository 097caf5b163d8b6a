package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// teller is a durable grain that tells ledgers each of its numbers; a ledger, durable too, has the last of each teller.
type (
	teller struct{ n grains.State[int] }
	ledger struct {
		last grains.State[map[string]int]
		odd  grains.State[[]string] // what came twice, or out of order
	}
)

// toldNumber is what a teller tells.
type toldNumber struct {
	From string
	N    int
}

// ledgerPage is what a ledger has of one teller.
type ledgerPage struct {
	Last int
	Odd  []string
}

// outboxes are messages between durable grains: what a turn that counted has told others arrives without a further
// call, once, in the order of its teller.
func outboxes(tb *raysys.Table) workload {
	const name, keys, books = "outbox", 24, 4
	const law = "what a turn that counted has told others arrives once, in order"
	kind := grains.DefineIn[ledger](tb, "chaos.ledger", grains.Durable())
	note := grains.Action(kind, "note", func(l *ledger, _ context.Context, t toldNumber) error {
		if l.last.Value == nil {
			l.last.Value = map[string]int{}
		}
		if last := l.last.Value[t.From]; t.N != last+1 {
			l.odd.Value = append(l.odd.Value, fmt.Sprintf("%d of %s after %d", t.N, t.From, last))
		}
		l.last.Value[t.From] = t.N
		return nil
	})
	page := grains.Method(kind, "page", func(l *ledger, _ context.Context, from string) (ledgerPage, error) {
		return ledgerPage{l.last.Value[from], l.odd.Value}, nil
	}).ReadOnly()
	tellers := grains.DefineIn[teller](tb, "chaos.teller", grains.Durable())
	tell := grains.Method(tellers, "tell", func(x *teller, ctx context.Context, n int) (last int, err error) {
		id, _ := grains.Self(ctx)
		for range n {
			x.n.Value++
			for book := range 2 { // one of its own, and one that others share
				to := kind.Get([]string{id.Key, fmt.Sprint("book ", len(id.Key)%books)}[book])
				err = errors.Join(err, note.Tell(ctx, to, toldNumber{id.Key, x.n.Value}))
			}
		}
		return x.n.Value, err
	})
	read := grains.Method0(tellers, "read", func(x *teller, _ context.Context) (int, error) {
		return x.n.Value, nil
	}).ReadOnly()
	key := func(i int) string { return fmt.Sprintf("teller %0*d", 1+i%books, i) }

	var mu sync.Mutex // guards the rest
	answered := map[string]int{}
	// wait looks at the ledger at until it has the number want of a teller.
	wait := func(ctx context.Context, at, from string, want int) (got ledgerPage, err error) {
		for err == nil {
			if got, err = page.Call(ctx, kind.Get(at), from).Get(ctx); err != nil || got.Last >= want {
				break
			}
			err = nap(ctx, time.Second)
		}
		return got, err
	}
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, 2*(r.on.Size()+1), thinkTime, func(c *client, ctx context.Context) {
				at, n := key(c.rng.IntN(keys)), 1+c.rng.IntN(5)
				a := c.begin(ctx, "%s tells %d numbers", at, n)
				last, err := tell.Call(ctx, tellers.Get(at), n).Get(ctx)
				a.end(err)
				mu.Lock()
				answered[at] = max(answered[at], last)
				mu.Unlock()
			})
		},
		end: func(r *round) {
			c := &client{round: r, workload: name}
			ctx, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
			defer cancel()
			odd := map[string]bool{} // the ledgers that were reported
			for i := range keys {
				from := key(i)
				list := []string{from, fmt.Sprint("book ", len(from)%books)}
				for _, at := range list { // its teller is left alone, and is woken where it died
					if got, err := wait(ctx, at, from, answered[from]); err != nil {
						r.violate(name, law, "%s has told %d numbers, and the ledger %s has %d: %v",
							from, answered[from], at, got.Last, err)
						return
					}
				}
				a := c.begin(ctx, "the last read of %s", from)
				want, err := read.Call(ctx, tellers.Get(from)).Get(ctx)
				a.end(err)
				for _, at := range list {
					var got ledgerPage
					if err == nil {
						got, err = wait(ctx, at, from, want)
					}
					if got.Last != want || len(got.Odd) > 0 && !odd[at] {
						odd[at] = true
						r.violate(name, law, "%s has told %d numbers, and the ledger %s has the last %d, %v; odd: %q",
							from, want, at, got.Last, err, got.Odd)
					}
				}
			}
		},
	}
}
