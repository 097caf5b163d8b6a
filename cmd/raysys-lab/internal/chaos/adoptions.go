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

// draw is what a task has drawn. A large one is an object.
type draw struct {
	Number uint64
	Bulk   []byte
}

// largeDraw is above the size from which a value is an object.
const largeDraw = 100_000

// drawing says what to draw.
type drawing struct {
	Large bool
	Rest  time.Duration
}

// lot is a reference to a draw, on its way to a holder.
type lot struct {
	Number int
	Ref    raysys.Handle[draw]
}

// holder has references in memory until it is told to drop them.
type holder struct{ held map[int]raysys.Ref[draw] }

// Keep holds a reference, and says whether its task is recorded, by another node.
func (h *holder) Keep(_ context.Context, l lot) (bool, error) {
	if h.held == nil {
		h.held = map[int]raysys.Ref[draw]{}
	}
	ref := l.Ref.Ref()
	h.held[l.Number] = ref
	link := core.Ref[draw](ref)
	run, _ := refs.RecordedAs(core.FutureOf(link.Link))
	return run != 0 && refs.RemoteOf(core.FutureOf(link.Link)) != nil, nil
}

// Outcome waits for the number.
func (h *holder) Outcome(ctx context.Context, number int) (uint64, error) {
	ref, ok := h.held[number]
	if !ok {
		return 0, errGone
	}
	d, err := ref.Get(ctx)
	return d.Number, err
}

// Drop lets go of a reference, or of all below 0. No Release: another holder of the node may have the same future.
func (h *holder) Drop(_ context.Context, number int) (bool, error) {
	delete(h.held, number)
	if number < 0 {
		h.held = nil
	}
	return true, nil
}

// told is what one node was told of a draw.
type told struct {
	who    string
	number uint64
	again  func() (uint64, error) // asks once more
}

// adoptions are tasks that draw a number, so that no two runs have one outcome. Grains hold references to them while the
// nodes die that submitted and ran them: whoever is told an outcome is told the same, and a recorded task is not lost while
// a grain holds a reference to it. Half of the draws are objects. One that its owner took along, with all copies, is drawn
// again: then no node has the former one.
func adoptions(tb *raysys.Table) workload {
	const name, keys = "adoptions", 10
	drawn := tasks.DefineIn(tb, "chaos.draw", func(ctx context.Context, d drawing) (out draw, err error) {
		var b [8]byte
		_, _ = rand.Read(b[:])
		out.Number = binary.LittleEndian.Uint64(b[:])
		if d.Large {
			out.Bulk = make([]byte, largeDraw)
		}
		return out, nap(ctx, d.Rest)
	})
	kind := grains.DefineIn[holder](tb, "chaos.holder", grains.Reentrant())
	keep := grains.Method(kind, "keep", (*holder).Keep)
	outcome := grains.Method(kind, "outcome", (*holder).Outcome).ReadOnly()
	drop := grains.Method(kind, "drop", (*holder).Drop)
	// differ judges what was told of one draw.
	differ := func(c *client, what string, large bool, list []told) {
		for i, one := range list {
			for _, other := range list[:i] {
				if one.number == other.number {
					continue
				}
				if large { // another node may have died with the former one
					first, err1 := other.again()
					second, err2 := one.again()
					if err1 != nil || err2 != nil || first == second {
						continue
					}
					one.number, other.number = second, first
				}
				c.violate(name, "a task has one outcome", "%s is %x for %s, and %x for %s", what, other.number, other.who, one.number, one.who)
				return
			}
		}
	}
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
				d := drawing{Large: number%2 == 0, Rest: time.Duration(c.rng.IntN(4000)) * time.Millisecond}
				// The task ends with its submitter, not with the client's operation.
				ref := drawn.Go(node.Context(context.Background()), d)
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
				mine, errMine := ref.Get(ctx)
				// No fault ends the round's own node: it asks for the rest when the submitter is dead.
				on, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
				defer cancel()
				var heard []told
				for at, known := range recorded {
					a := c.begin(on, "ask holder %s for number %d (recorded: %v)", at, number, known)
					ask := func() (uint64, error) { return outcome.Call(on, kind.Get(at), number).Get(on) }
					v, err := ask()
					switch {
					case err == nil:
						if known { // what the submitter tells its own program ends with it
							heard = append(heard, told{"holder " + at, v, ask})
						}
						c.count(name, nil)
					case known && errors.Is(err, raysys.ErrObjectLost):
						c.violate(name, "a recorded task is not lost while a grain holds a reference to it", "%s: %v", a.what, err)
					case errors.Is(err, errGone), errors.Is(err, raysys.ErrObjectLost): // its node died before the question
						c.count(name, err)
					default:
						c.judge(a, err, false)
					}
				}
				if errMine == nil && len(heard) > 0 && mine.Number != heard[0].number {
					<-time.After(c.doubt) // what a dead submitter knew before it heard of that, it told no other node
					if node.Err() == nil {
						heard = append(heard, told{"its submitter " + string(node.Name()), mine.Number, func() (uint64, error) {
							d, err := ref.Get(node.Context(on))
							return d.Number, err
						}})
					}
				}
				differ(c, fmt.Sprintf("number %d of %s", number, node.Name()), d.Large, heard)
				for at := range recorded {
					a := c.begin(on, "have holder %s drop number %d", at, number)
					_, err := drop.Call(on, kind.Get(at), number).Get(on)
					c.judge(a, err, false)
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
