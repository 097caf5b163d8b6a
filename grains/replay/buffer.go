package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
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
	mass map[part]float64  // as far as shards have said
}

// part is a shard's part of a table.
type part struct{ table, shard int }

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
		r := b.askShards(ctx, question{Table: uint16(at), N: n - len(got.keys), Wait: wait})
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
	shares []float64 // with which probability a sample is of the shard; 1 where its sampler does not weigh
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

// askShards asks the shards for q.N samples in all.
func (b *buffer) askShards(ctx context.Context, q question) *round {
	r := &round{ctx: ctx, table: int(q.Table), wait: q.Wait, until: time.Now().Add(q.Wait)}
	call, n := b.d.sample, q.N
	if b.d.cfg.Shards > 1 { // a shard that has no samples, or whose node is gone, does not hold up the others for long
		q.Wait = min(q.Wait, shortly)
		call = call.With(raysys.Deadline(q.Wait + 2*time.Second))
	}
	shards := b.turn()
	weighs := b.d.cfg.Tables[q.Table].Sampler.weighs && b.d.cfg.Shards > 1
	shares, at, probes := b.shares(r.table, shards, weighs), 0.0, 0
	if weighs {
		at = rand.Float64()
	}
	for i, part := range split(n, shares, at) {
		if q.Shard, q.N = shards[i], part; part == 0 {
			if !weighs || probes == maxProbes {
				continue
			}
			probes++
			q.Sampler = 0
		}
		if !weighs {
			shares[i] = 1
		}
		r.shards, r.shares, r.calls = append(r.shards, q.Shard), append(r.shares, shares[i]), append(r.calls, call.Call(ctx, b.shard(q.Shard), q))
	}
	return r
}

// maxProbes bounds how many shards that are to give no samples of a round are asked for their mass all the same.
const maxProbes = 8

// shares is with which probability a sample is to be of each shard: by its mass, or alike.
func (b *buffer) shares(table int, shards []int, weighs bool) []float64 {
	list, most, sum := make([]float64, len(shards)), 0.0, 0.0
	b.mu.Lock()
	for i, shard := range shards {
		mass, known := b.mass[part{table, shard}]
		if list[i] = mass; weighs && !known {
			most = 0
			break // until all have said theirs
		}
		most = max(most, mass)
	}
	b.mu.Unlock()
	for i := range list {
		if most > 0 {
			list[i] /= most // so that no sum is infinite
		} else {
			list[i] = 1
		}
		sum += list[i]
	}
	for i := range list {
		list[i] /= sum
	}
	return list
}

// split makes parts of n in proportion to shares: each is one of the two whole numbers beside its share. Where at is a random number below 1 it is
// its share in the mean.
func split(n int, shares []float64, at float64) []int {
	parts, last, left := make([]int, len(shares)), 0, n
	for i, s := range shares {
		from := math.Floor(at)
		if at += s * float64(n); s > 0 {
			last = i
		}
		parts[i] = min(left, int(math.Floor(at)-from))
		left -= parts[i]
	}
	parts[last] += left // of rounding
	return parts
}

// weigh keeps what a shard has said of its mass.
func (b *buffer) weigh(table, shard int, mass float64) {
	if b.d.cfg.Shards == 1 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mass == nil {
		b.mass = map[part]float64{}
	}
	b.mass[part{table, shard}] = mass
}

// collect takes the answers of a round. Where ctx ends before its calls do, another collect goes on.
func (b *buffer) collect(ctx context.Context, r *round, got *collected) error {
	for ; r.next < len(r.calls); r.next++ {
		shard, call := r.shards[r.next], r.calls[r.next]
		a, err := call.Get(ctx)
		if err != nil && ctx.Err() != nil && raysys.PhaseOf(call) != raysys.PhasePending {
			a, err = call.Get(r.ctx) // it came as ctx ended, and what it has taken is in no later answer
		}
		switch shut := shutIn(err); {
		case err == nil:
			before := len(got.keys)
			if err := b.take(ctx, got, r.table, shard, a); err != nil {
				return err
			}
			for i := before; i < len(got.keys); i++ {
				got.probabilities[i] *= r.shares[r.next]
			}
			b.weigh(r.table, shard, a.Mass)
			r.took = r.took || len(a.Keys) > 0
		case raysys.PhaseOf(call) == raysys.PhasePending:
			return err
		case shut != nil:
			r.shut = shut
			b.weigh(r.table, shard, 0)
		case b.d.cfg.Shards > 1 && r.ctx.Err() == nil && !refusedForGood(err):
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

// refusedForGood reports whether a shard has refused a call, as it will again: then the shard is not to blame.
func refusedForGood(err error) bool {
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
