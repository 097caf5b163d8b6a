package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// layer is one step of a chain: bytes that are computed from those of the step before.
type layer struct {
	From raysys.Handle[[]byte] // zero: from nothing
	Seed byte
	Size int
	Rest time.Duration
}

// over is what the layer makes of the bytes before.
func (l layer) over(before []byte) []byte {
	out := blob{l.Seed, l.Size}.make()
	for i := range out[:min(len(out), len(before))] {
		out[i] ^= before[i]
	}
	return out
}

// chain is the large results of a chain of tasks, each computed from the one before, and what they must be.
type chain struct {
	what string
	refs []raysys.Ref[[]byte]
	sums []uint32
	born attempt // its node is the submitter
}

// lineages are chains of tasks whose results are objects on the nodes that computed them, which die. While the node
// lives that submitted the tasks, each result is read with its right bytes, from a copy or made again: none is lost.
func lineages(tb *raysys.Table) workload {
	const name = "lineages"
	// Each submitter holds some chains from the begin of the round, and reads them again in its end.
	const held = 3
	often := raysys.Retries(100) // on a slow machine the node of each of four attempts may be killed
	first := tasks.DefineIn(tb, "chaos.lineage-first", func(ctx context.Context, l layer) ([]byte, error) { return l.over(nil), nap(ctx, l.Rest) }).With(often)
	next := tasks.DefineIn(tb, "chaos.lineage-next", func(ctx context.Context, l layer) ([]byte, error) {
		before, err := l.From.Ref().Get(ctx)
		if err != nil {
			return nil, err
		}
		return l.over(before), nap(ctx, l.Rest)
	}).With(often)
	sum := tasks.DefineIn(tb, "chaos.lineage-sum", func(ctx context.Context, h raysys.Handle[[]byte]) (uint32, error) {
		b, err := h.Ref().Get(ctx)
		return crc32.ChecksumIEEE(b), err
	})
	grow := func(c *client, ctx context.Context) *chain {
		node := system.NodeOf(ctx)
		ctx = node.Context(context.Background()) // which ends with the submitter, not with the client's operation
		ch := &chain{what: "chain of"}
		var before []byte
		var last raysys.Ref[[]byte]
		for i := range 1 + c.rng.IntN(5) {
			// Above 64 KiB a result is an object.
			l := layer{Seed: byte(c.rng.Uint32()), Size: 66_000 + c.rng.IntN(60_000), Rest: time.Duration(c.rng.IntN(200)) * time.Millisecond}
			ch.what += fmt.Sprintf(" %d/%d", l.Seed, l.Size)
			before = l.over(before)
			if i == 0 {
				last = first.Go(ctx, l)
			} else {
				l.From = last.Handle()
				last = next.Go(ctx, l)
			}
			ch.refs = append(ch.refs, last)
			ch.sums = append(ch.sums, crc32.ChecksumIEEE(before))
		}
		ch.born = c.begin(ctx, "%s", ch.what)
		return ch
	}
	// read reads step i of a chain, here or by a task.
	read := func(c *client, ctx context.Context, ch *chain, i int) {
		a := ch.born
		a.what = fmt.Sprintf("step %d of the %s", i+1, ch.what)
		a.began = time.Now()
		var got uint32
		var err error
		if c.rng.IntN(2) == 0 {
			got, err = sum.Go(ctx, ch.refs[i].Handle()).Get(ctx)
		} else {
			var b []byte
			b, err = ch.refs[i].Get(ctx)
			got = crc32.ChecksumIEEE(b)
		}
		// A rebuild that failed under faults stays: in a calm time it is the error of then.
		if err != nil && matches(err, excuses) && !errors.Is(err, raysys.ErrObjectLost) {
			c.count(name, err)
			return
		}
		c.judge(a, err, true)
		if err == nil && got != ch.sums[i] {
			c.violate(name, "a task's result is its own, also when it is made again", "%s has checksum %x, want %x", a.what, got, ch.sums[i])
		}
	}
	var mu sync.Mutex // guards kept
	kept := map[int][]*chain{}
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, r.on.Size()+1, 4*thinkTime, func(c *client, ctx context.Context) {
				mu.Lock()
				mine := kept[c.number]
				mu.Unlock()
				var ch *chain
				if len(mine) == held && c.rng.IntN(3) > 0 {
					ch = mine[c.rng.IntN(held)]
				} else {
					ch = grow(c, ctx)
				}
				if ch.born.node != system.NodeOf(ctx) { // its submitter is down, or in another life, and the chain gone with it
					mu.Lock()
					delete(kept, c.number)
					mu.Unlock()
					return
				}
				for range 1 + c.rng.IntN(2) {
					read(c, ctx, ch, c.rng.IntN(len(ch.refs)))
				}
				mu.Lock()
				if mine := kept[c.number]; len(mine) < held {
					kept[c.number] = append(mine, ch)
				}
				mu.Unlock()
			})
		},
		end: func(r *round) {
			for number, list := range kept {
				c := &client{round: r, workload: name, number: number, rng: rngOf(r.seed, name+"-end", number)}
				for _, ch := range list {
					if ch.born.node.Err() != nil {
						continue
					}
					ctx, cancel := context.WithTimeout(ch.born.node.Context(context.Background()), patience)
					for i := range ch.refs {
						read(c, ctx, ch, i)
					}
					cancel()
				}
			}
			clear(kept)
		},
	}
}
