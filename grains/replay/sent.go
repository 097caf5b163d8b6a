package replay

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
)

// sent is a batch on its way.
type sent struct {
	b     *buffer
	batch batch     // its ID is 0 while no shard may have it
	open  bool      // whether the call is on its way: else it has failed, and is to be made again
	done  int       // how many of its items are in
	first int       // place of its first item among those of all batches
	items int       // how many it has
	until time.Time // the deadline of the ctx that it was sent with; zero for none
	call  raysys.Ref[uint64]
}

// send makes the call, to the shard whose turn it is. Until that says how the call ended it is made again with its ID: what the shard has of
// it counts.
func (s *sent) send(ctx context.Context) {
	x := &s.batch
	if x.ID == 0 {
		x.ID, x.Shard = rand.Uint64(), s.b.turn()[0]
	}
	x.Wait, _ = allowed(ctx)
	s.until, _ = ctx.Deadline()
	s.open, s.call = true, s.b.d.insert.Call(ctx, s.b.shard(x.Shard), *x)
}

// repeats is how often end makes a call of unknown outcome again: each try of the engine takes up to half a minute.
const repeats = 3

// end waits until the batch is in a shard. It may have been sent with an earlier ctx, of Append: that one has ended, perhaps, and with it the
// call. After an error the next end goes on where this one stopped. A shard that does not say whether it has the batch keeps it until it does, in this
// activation or the next: in another shard the items might be in twice.
func (s *sent) end(ctx context.Context) error {
	for tries := 0; ; {
		fresh := !s.open
		if fresh {
			s.send(ctx)
			tries++
		}
		until, bounded := ctx.Deadline()
		waited := s.batch.Wait < patience && (s.until.IsZero() || bounded && !until.After(s.until)) // as long as ctx allows
		run, err := s.call.Get(ctx)
		if err != nil && raysys.PhaseOf(s.call) == raysys.PhasePending {
			return err // ctx has ended, and not the call
		}
		s.open = false
		shut := shutIn(err)
		switch {
		case err == nil:
			s.b.ran(ctx, s.batch.Shard, run)
			s.done += len(s.batch.Tables)
			return nil
		case shut != nil:
			s.batch.skip(shut.Done)
			s.done += shut.Done
			s.batch.ID = 0
			if _, ok := allowed(ctx); !ok || waited {
				return shut
			}
			s.b.shut(ctx, shut)
		case ctx.Err() != nil || refusedForGood(err):
			return err
		case !fresh && (errors.Is(err, raysys.ErrCancelled) || errors.Is(err, raysys.ErrDeadline)): // with an earlier ctx
		case s.b.d.cfg.Shards == 1 || tries > repeats:
			return err
		default:
			s.b.failed(ctx, s.batch.Shard, err)
			if errors.Is(err, raysys.ErrNoCapacity) { // it has no activation
				s.batch.ID = 0
				continue
			}
			select {
			case <-time.After(shortly):
			case <-ctx.Done():
				return err
			}
		}
	}
}

// skip leaves out the first items.
func (x *batch) skip(n int) {
	x.Tables, x.Priorities, x.First, x.Last = x.Tables[n:], x.Priorities[n:], x.First[n:], x.Last[n:]
	if x.Object != nil {
		x.Object = x.Object[n:]
	}
}
