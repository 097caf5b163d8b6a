package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// buffer is a Client without its type.
type buffer struct {
	d   *definition
	key string

	mu   sync.Mutex // guards the rest
	next int        // the shard that is asked next
	runs map[int]uint64
	out  map[int]time.Time // shards that have failed, and until when they are left alone
	told time.Time         // when a shut limiter was logged last
}

func (b *buffer) String() string { return b.d.name + "/" + b.key }

func (b *buffer) shard(i int) grains.Grain[shard] {
	return b.d.kind.Get(fmt.Sprintf("%s/%d", b.key, i))
}

// leftAlone is for how long a shard that failed is not asked.
const leftAlone = 5 * time.Second

// turn returns the shards in the order in which they are to be asked, without those that failed a moment ago, unless all did.
func (b *buffer) turn() (list []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.d.cfg.Shards
	first := b.next
	b.next = (b.next + 1) % n
	now := time.Now()
	for i := range n {
		if s := (first + i) % n; now.After(b.out[s]) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		for i := range n {
			list = append(list, (first+i)%n)
		}
	}
	return list
}

// failed leaves a shard alone for a while, and says so.
func (b *buffer) failed(ctx context.Context, shard int, err error) {
	b.mu.Lock()
	if b.out == nil {
		b.out = map[int]time.Time{}
	}
	b.out[shard] = time.Now().Add(leftAlone)
	b.mu.Unlock()
	b.warn(ctx, "a shard of a replay buffer does not answer; the others go on", "shard", shard, "error", err)
}

// ran notes the activation of a shard that has answered: another than before has lost its items.
func (b *buffer) ran(ctx context.Context, shard int, run uint64) {
	b.mu.Lock()
	before, known := b.runs[shard]
	b.runs[shard] = run
	b.mu.Unlock()
	if known && before != run {
		b.warn(ctx, "a shard of a replay buffer was lost with its items, and begins anew", "shard", shard)
	}
}

// shut says which limiter is shut, now and then.
func (b *buffer) shut(ctx context.Context, e *ShutError) {
	b.mu.Lock()
	now := time.Now()
	silent := now.Sub(b.told) < 30*time.Second
	if !silent {
		b.told = now
	}
	b.mu.Unlock()
	if !silent {
		b.warn(ctx, "a call to a replay buffer waits", "reason", e.Error())
	}
}

func (b *buffer) warn(ctx context.Context, message string, args ...any) {
	if n := system.NodeOf(ctx); n != nil {
		n.Log().Warn(message, append([]any{"buffer", b.String()}, args...)...)
	}
}

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
		case ctx.Err() != nil || own(err):
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

// collected are samples whose steps are not decoded.
type collected struct {
	sizes                     map[int]int // of the table in each shard that gave some
	steps                     [][]byte
	ends                      []int
	keys                      []uint64
	probabilities, priorities []float64
	times                     []int
}

// sample collects n samples. What was taken comes back with an error as well.
func (b *buffer) sample(ctx context.Context, table string, n int) (got collected, err error) {
	at, err := b.sampled(table, n)
	for err == nil && len(got.keys) < n {
		wait, ok := allowed(ctx)
		if !ok {
			err = context.DeadlineExceeded
			break
		}
		r := b.ask(ctx, question{Table: uint16(at), N: n - len(got.keys), Wait: wait})
		if err = b.collect(ctx, r, &got); err == nil {
			err = b.after(ctx, r)
		}
	}
	if err != nil {
		return got, fmt.Errorf("sample %v: %w", b, err)
	}
	return got, nil
}

// sampled returns the number of a table that is to be sampled.
func (b *buffer) sampled(table string, n int) (int, error) {
	at, err := b.d.cfg.table(table)
	if err == nil && n < 1 {
		err = fmt.Errorf("%w: %d samples", ErrConfig, n)
	}
	return at, err
}

// round is a question to several shards, each of which is asked for a part.
type round struct {
	table  int
	shards []int
	calls  []raysys.Ref[answer]
	next   int // the call whose answer is to be taken
	wait   time.Duration
	until  time.Time       // when the shards end what waits
	ctx    context.Context // that it was asked with
	took   bool            // whether there were samples
	shut   *ShutError
	failed error
}

// shortly is how long a shard of several keeps a question while others may have samples.
const shortly = 250 * time.Millisecond

// ask asks the shards for q.N samples in all.
func (b *buffer) ask(ctx context.Context, q question) *round {
	r := &round{ctx: ctx, table: int(q.Table), wait: q.Wait, until: time.Now().Add(q.Wait)}
	call, n := b.d.sample, q.N
	if b.d.cfg.Shards > 1 { // a shard that has no samples, or whose node is gone, does not hold up the others for long
		q.Wait = min(q.Wait, shortly)
		call = call.With(raysys.Deadline(q.Wait + 2*time.Second))
	}
	shards := b.turn()
	r.shards = shards[:min(len(shards), n)]
	for i, shard := range r.shards {
		q.Shard, q.N = shard, n/len(r.shards)+min(1, max(0, n%len(r.shards)-i))
		r.calls = append(r.calls, call.Call(ctx, b.shard(shard), q))
	}
	return r
}

// collect takes the answers of a round. Where ctx ends before its calls do, another collect goes on.
func (b *buffer) collect(ctx context.Context, r *round, got *collected) error {
	for ; r.next < len(r.calls); r.next++ {
		shard, call := r.shards[r.next], r.calls[r.next]
		a, err := call.Get(ctx)
		switch shut := shutIn(err); {
		case err == nil:
			if err := b.take(ctx, got, r.table, shard, a); err != nil {
				return err
			}
			r.took = r.took || len(a.Keys) > 0
		case raysys.PhaseOf(call) == raysys.PhasePending:
			return err
		case shut != nil:
			r.shut = shut
		case b.d.cfg.Shards > 1 && r.ctx.Err() == nil && !own(err):
			r.failed = err
			b.failed(ctx, shard, err)
		default:
			r.next++
			return err
		}
	}
	return nil
}

// after returns why there is no other round after one that has brought nothing.
func (b *buffer) after(ctx context.Context, r *round) error {
	if r.took {
		return nil
	}
	several := b.d.cfg.Shards > 1
	left, ok := allowed(ctx)
	switch {
	case r.shut == nil && r.failed != nil && !ok:
		return r.failed
	case r.shut != nil && (!ok || r.wait < patience && !several || several && left < shortly):
		return r.shut
	case r.shut != nil:
		b.shut(ctx, r.shut)
	case r.failed != nil: // no shard answers
		select {
		case <-time.After(shortly):
		case <-ctx.Done():
			return r.failed
		}
	}
	return nil
}

// own reports whether a shard has refused a call, as it will again: then the shard is not to blame.
func own(err error) bool {
	var refused *raysys.TaskError
	return errors.As(err, &refused)
}

// cut takes the first n samples out.
func (c *collected) cut(n int) collected {
	first, end := *c, c.ends[n-1]
	first.steps, first.ends, first.keys, first.times = c.steps[:end:end], c.ends[:n:n], c.keys[:n:n], c.times[:n:n]
	first.probabilities, first.priorities = c.probabilities[:n:n], c.priorities[:n:n]
	c.sizes, c.steps, c.keys, c.times = maps.Clone(c.sizes), c.steps[end:], c.keys[n:], c.times[n:]
	c.ends, c.probabilities, c.priorities = slices.Clone(c.ends[n:]), c.probabilities[n:], c.priorities[n:]
	for i := range c.ends {
		c.ends[i] -= end
	}
	return first
}

// take adds the samples of an answer, or none where it fails. Items whose object is lost are deleted.
func (b *buffer) take(ctx context.Context, got *collected, table, shard int, a answer) error {
	b.ran(ctx, shard, a.Run)
	objects := make([]raysys.Ref[[]byte], len(a.Objects))
	for i, h := range a.Objects {
		objects[i] = h.Ref()
	}
	large := raysys.GetAll(ctx, objects)
	for _, o := range large {
		if o.Err != nil && !errors.Is(o.Err, raysys.ErrObjectLost) { // ctx has ended, or there is no room for it here
			return o.Err
		}
	}
	n := len(a.Keys)
	got.steps, got.ends, got.times = slices.Grow(got.steps, len(a.Ends)), slices.Grow(got.ends, n), slices.Grow(got.times, n)
	got.keys, got.probabilities, got.priorities = slices.Grow(got.keys, n), slices.Grow(got.probabilities, n), slices.Grow(got.priorities, n)
	if got.sizes == nil {
		got.sizes = map[int]int{}
	}
	got.sizes[shard] = a.Size
	var lost []uint64
	step, from := 0, uint32(0)
	for i, k := range a.Keys {
		if a.Object != nil && a.Object[i] >= 0 {
			steps, err := unpack(large[a.Object[i]])
			if err != nil {
				lost = append(lost, k)
				continue
			}
			got.steps = append(got.steps, steps...)
		} else {
			for range a.Steps[i] {
				got.steps = append(got.steps, a.Data[from:a.Ends[step]:a.Ends[step]])
				from = a.Ends[step]
				step++
			}
		}
		got.ends = append(got.ends, len(got.steps))
		got.keys = append(got.keys, k)
		got.probabilities = append(got.probabilities, a.Probabilities[i])
		got.priorities = append(got.priorities, a.Priorities[i])
		got.times = append(got.times, int(a.Times[i]))
	}
	if lost != nil {
		b.warn(ctx, "items of a replay buffer were lost with the node that had their data", "items", len(lost))
		_ = b.d.change.Tell(ctx, b.shard(shard), change{Shard: shard, Table: uint16(table), Keys: lost}) // they are met again otherwise
	}
	return nil
}

// pack makes an object of steps: their number, where each ends, and their bytes.
func pack(data []byte, ends []uint32, from uint32) []byte {
	out := binary.AppendUvarint(nil, uint64(len(ends)))
	for _, e := range ends {
		out = binary.AppendUvarint(out, uint64(e-from))
	}
	for len(out)%8 != 0 { // the numbers of a step that is one slice are aligned then
		out = append(out, 0)
	}
	return append(out, data...)
}

func unpack(o raysys.Outcome[[]byte]) (steps [][]byte, err error) {
	if o.Err != nil {
		return nil, o.Err
	}
	bad := fmt.Errorf("replay: an object of %d bytes is no item", len(o.Value))
	at := 0
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(o.Value[at:])
		at += max(0, n)
		return v, n > 0
	}
	n, ok := next()
	if !ok || n > uint64(len(o.Value)) {
		return nil, bad
	}
	ends := make([]uint64, n)
	for i := range ends {
		if ends[i], ok = next(); !ok {
			return nil, bad
		}
	}
	at = (at + 7) / 8 * 8
	from := uint64(0)
	for _, e := range ends {
		if at > len(o.Value) || e < from || e > uint64(len(o.Value)-at) {
			return nil, bad
		}
		steps = append(steps, o.Value[at:][from:e:e])
		from = e
	}
	return steps, nil
}
