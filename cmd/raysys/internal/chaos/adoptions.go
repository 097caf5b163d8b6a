package chaos

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// lot is a reference to a drawn number, on its way to a holder.
type lot struct {
	Number int
	Ref    raysys.Handle[uint64]
}

// holder has references in memory until it is told to drop them.
type holder struct{ held map[int]raysys.Ref[uint64] }

// Keep holds a reference, and says whether its task is recorded, by another node.
func (h *holder) Keep(_ context.Context, l lot) (bool, error) {
	if h.held == nil {
		h.held = map[int]raysys.Ref[uint64]{}
	}
	ref := l.Ref.Ref()
	h.held[l.Number] = ref
	link := core.Ref[uint64](ref)
	run, _ := refs.RecordedAs(link.RefFuture())
	return run != 0 && refs.RemoteOf(link.RefFuture()) != nil, nil
}

// Outcome waits for the number.
func (h *holder) Outcome(ctx context.Context, number int) (uint64, error) {
	ref, ok := h.held[number]
	if !ok {
		return 0, errGone
	}
	return ref.Get(ctx)
}

// Drop lets go of a reference, or of all below 0. No Release: another holder of the node may have the same future.
func (h *holder) Drop(_ context.Context, number int) (bool, error) {
	delete(h.held, number)
	if number < 0 {
		h.held = nil
	}
	return true, nil
}

// adoptions are tasks that draw a number, so that no two runs have one outcome. Grains hold references to them while the
// nodes die that submitted and ran them: whoever is told an outcome is told the same, and a recorded task is not lost while
// a grain holds a reference to it.
func adoptions(tb *raysys.Table) workload {
	const name, keys = "adoptions", 10
	draw := tasks.DefineIn(tb, "chaos.draw", func(ctx context.Context, rest time.Duration) (uint64, error) {
		var b [8]byte
		_, _ = rand.Read(b[:])
		return binary.LittleEndian.Uint64(b[:]), nap(ctx, rest)
	})
	kind := grains.DefineIn[holder](tb, "chaos.holder", grains.Reentrant())
	keep := grains.Method(kind, "keep", (*holder).Keep)
	outcome := grains.Method(kind, "outcome", (*holder).Outcome).ReadOnly()
	drop := grains.Method(kind, "drop", (*holder).Drop)
	var mu sync.Mutex // guards last
	last := 0
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, 2*(r.on.Size()+1), 4*thinkTime, func(c *client, ctx context.Context) {
				mu.Lock()
				last++
				number := last
				mu.Unlock()
				node := system.NodeOf(ctx)
				rest := time.Duration(c.rng.IntN(4000)) * time.Millisecond
				// The task ends with its submitter, not with the client's operation.
				ref := draw.Go(node.Context(context.Background()), rest)
				recorded := map[string]bool{}
				for range 2 {
					at := fmt.Sprint(c.rng.IntN(keys))
					a := c.begin(ctx, "give number %d to holder %s", number, at)
					known, err := keep.Call(ctx, kind.Get(at), lot{number, ref.Handle()}).Get(ctx)
					c.judge(a, err, false)
					if err == nil {
						recorded[at] = known
					}
				}
				_ = nap(ctx, time.Duration(c.rng.IntN(4000))*time.Millisecond)
				var told uint64
				from := ""
				hear := func(v uint64, who string) {
					if from != "" && v != told {
						c.violate(name, "a task has one outcome", "number %d of %s is %x for %s, and %x for %s", number, node.Name(), told, from, v, who)
					}
					told, from = v, who
				}
				mine, errMine := ref.Get(ctx)
				// No fault ends the round's own node: it asks for the rest when the submitter is dead.
				on, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
				defer cancel()
				for at, known := range recorded {
					a := c.begin(on, "ask holder %s for number %d (recorded: %v)", at, number, known)
					v, err := outcome.Call(on, kind.Get(at), number).Get(on)
					switch {
					case err == nil:
						if known { // what the submitter tells its own program ends with it
							hear(v, "holder "+at)
						}
						c.count(name, nil)
					case known && errors.Is(err, raysys.ErrObjectLost):
						c.violate(name, "a recorded task is not lost while a grain holds a reference to it", "%s: %v", a.what, err)
					case errors.Is(err, errGone), errors.Is(err, raysys.ErrObjectLost): // its node died before the question
						c.count(name, err)
					default:
						c.judge(a, err, false)
					}
					a = c.begin(on, "have holder %s drop number %d", at, number)
					_, err = drop.Call(on, kind.Get(at), number).Get(on)
					c.judge(a, err, false)
				}
				if errMine == nil && from != "" && mine != told {
					<-time.After(c.doubt) // what a dead submitter knew before it heard of that, it told no other node
					if node.Err() == nil {
						hear(mine, "its submitter "+string(node.Name()))
					}
				}
			})
		},
		end: func(r *round) {
			c := &client{round: r, workload: name}
			ctx, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
			defer cancel()
			for i := range keys {
				a := c.begin(ctx, "have holder %d drop all", i)
				_, err := drop.Call(ctx, kind.Get(fmt.Sprint(i)), -1).Get(ctx)
				a.end(err)
			}
		},
	}
}
