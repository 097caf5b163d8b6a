package replay

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/items"
)

// batch is an insert: steps, and the items that are ranges of them. Lists of one length describe the items.
type batch struct {
	ID      uint64 // the same for a call that is made again
	Shard   int
	Wait    time.Duration
	Data    []byte
	Ends    []uint32
	Objects []raysys.Handle[[]byte] // of items whose steps are too large for Data
	// Of each item: its table, its priority and its steps, or the object that has them with the number of the item's steps.
	Tables      []uint16
	Priorities  []float64
	First, Last []uint32
	Object      []int32 // -1 for none; nil where no item has one
}

// question asks for N samples at most. Of 0 it asks whether the limiter is shut; with a Sampler it also ends the questions of that one.
type question struct {
	Shard   int
	Table   uint16
	N       int
	Wait    time.Duration
	Sampler uint64 // whose question it is; 0 for none
}

// answer are samples. Lists of one length describe the items; Steps counts the steps of each.
type answer struct {
	Run           uint64  // of the activation
	Size          int     // of the table
	Mass          float64 // of the table, for the next question: see table.mass
	Keys          []uint64
	Probabilities []float64
	Priorities    []float64
	Times         []uint32
	Steps         []uint32
	Ends          []uint32 // of each step in Data
	Data          []byte
	Objects       []raysys.Handle[[]byte]
	Object        []int32 // as in batch
}

// shard has its part of every table. mu guards all: a call that waits too long is ended by its timer, which is no turn of the grain.
type shard struct {
	mu      sync.Mutex
	run     uint64
	number  int
	tables  []*table
	rand    *rand.Rand
	nextKey uint64
	made    items.Recent[int] // of inserts: how many items are in
	waits   waits

	read     *loaded // a checkpoint that is to be taken; of the grain's turns alone
	readName string
	took     string // the checkpoint that was taken last
}

// begin makes the tables of an activation.
func (s *shard) begin(ctx context.Context, cfg Config, number int) {
	if s.tables != nil {
		return
	}
	r := raysys.Rand(ctx)
	s.rand = rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	s.run, s.number = s.rand.Uint64(), number
	// A key that is used after the shard was lost is no item of the next activation, which counts on from its own time.
	s.nextKey = uint64(number)<<52 | uint64(time.Now().UnixMicro())&(1<<52-1)
	for _, t := range cfg.Tables {
		s.tables = append(s.tables, newTable(t))
	}
	s.waits.lines = make([]line, len(s.tables))
}

// check refuses a batch of which nothing is to be inserted.
func (s *shard) check(b *batch) error {
	n := len(b.Tables)
	if len(b.Priorities) != n || len(b.First) != n || len(b.Last) != n || b.Object != nil && len(b.Object) != n {
		return fmt.Errorf("%w: lists of different lengths", ErrConfig)
	}
	for i, t := range b.Tables {
		if int(t) >= len(s.tables) {
			return fmt.Errorf("%w: number %d", ErrNoTable, t)
		}
		if err := checkPriority(b.Priorities[i]); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if b.Object != nil && b.Object[i] >= 0 {
			if int(b.Object[i]) >= len(b.Objects) {
				return fmt.Errorf("%w: item %d has no object", ErrConfig, i)
			}
		} else if b.First[i] >= b.Last[i] || int(b.Last[i]) > len(b.Ends) {
			return fmt.Errorf("%w: item %d has steps %d to %d of %d", ErrConfig, i, b.First[i], b.Last[i], len(b.Ends))
		}
	}
	last := uint32(0)
	for _, e := range b.Ends {
		if e < last || int(e) > len(b.Data) {
			return fmt.Errorf("%w: a step ends at %d of %d bytes", ErrConfig, e, len(b.Data))
		}
		last = e
	}
	return nil
}

func checkPriority(p float64) error {
	if !(p >= 0) || math.IsInf(p, 0) {
		return fmt.Errorf("%w: it is %g", ErrPriority, p)
	}
	return nil
}

// insert takes a batch, or keeps it until its tables take its items.
func (s *shard) insert(b batch, l *grains.Later[uint64]) error {
	s.mu.Lock()
	if err := s.check(&b); err != nil {
		s.mu.Unlock()
		return err
	}
	done, _ := s.made.Get(b.ID)
	done = min(done, len(b.Tables))
	if done > 0 && done == len(b.Tables) {
		s.mu.Unlock()
		return l.Settle(s.run)
	}
	in := &inserting{waiting: waiting{ended: l.Context()}, later: l, batch: b, chunk: &chunk{data: b.Data, ends: b.Ends}, next: done}
	in.batch.Data, in.batch.Ends = nil, nil
	var ends endings
	if old := s.waits.inserts[b.ID]; old != nil { // its caller lost the way, and makes the call again
		in.chunk, in.next = old.chunk, old.next
		s.waits.replace(old, in)
	} else if s.waits.before(in) || !s.advance(in) {
		s.waits.insert(in)
	} else {
		s.remember(b.ID, in.next)
		ends = append(ends, s.inserted(in))
	}
	ends = s.pump(ends)
	if in.at != nil {
		in.timer = time.AfterFunc(b.Wait, func() { s.lateInsert(in) })
		l.Because(func() string { return s.reason(true, in.batch.Tables, &in.next) })
	}
	s.mu.Unlock()
	ends.settle()
	return nil
}

// sample takes samples, or keeps the question until the table may be sampled.
func (s *shard) sample(q question, l *grains.Later[answer]) error {
	s.mu.Lock()
	if int(q.Table) >= len(s.tables) || q.N < 0 {
		s.mu.Unlock()
		return fmt.Errorf("%w: %d samples of table number %d", ErrConfig, q.N, q.Table)
	}
	if q.N == 0 {
		ends := s.withdraw(q)
		t := s.tables[q.Table]
		a, err := answer{Run: s.run, Size: t.size(), Mass: t.mass()}, error(nil)
		if t.maySample(1) == 0 {
			err = t.shut(false, s.number)
		}
		s.mu.Unlock()
		ends.settle()
		if err != nil {
			return err
		}
		return l.Settle(a)
	}
	ask := &sampling{waiting: waiting{ended: l.Context()}, later: l, ask: q}
	var ends endings
	switch t := s.tables[q.Table]; {
	case s.waits.lines[q.Table].samples.Len() == 0 && t.maySample(1) > 0:
		ends = append(ends, s.sampled(ask))
	case q.Wait <= 0:
		err := t.shut(false, s.number)
		s.mu.Unlock()
		return err
	default:
		s.waits.sample(ask)
	}
	ends = s.pump(ends)
	if ask.at != nil {
		ask.timer = time.AfterFunc(q.Wait, func() { s.lateSample(ask) })
		l.Because(func() string { return s.reason(false, []uint16{q.Table}, new(int)) })
	}
	s.mu.Unlock()
	ends.settle()
	return nil
}

// reason is why a call waits: for the table of the item that is next.
func (s *shard) reason(insert bool, tables []uint16, next *int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *next >= len(tables) {
		return "" // it has ended this moment
	}
	return s.tables[tables[*next]].shut(insert, s.number).Error()
}

// advance inserts items until one has to wait; true when none is left.
func (s *shard) advance(in *inserting) bool {
	b := &in.batch
	for ; in.next < len(b.Tables); in.next++ {
		t := s.tables[b.Tables[in.next]]
		if !t.mayInsert() {
			return false
		}
		it := item{key: s.nextKey, chunk: in.chunk, first: int32(b.First[in.next]), last: int32(b.Last[in.next]), priority: b.Priorities[in.next]}
		s.nextKey++
		if b.Object != nil && b.Object[in.next] >= 0 {
			it.chunk = &chunk{object: b.Objects[b.Object[in.next]], large: true}
			it.first, it.last = 0, it.last-it.first // of the object
		}
		t.insert(it, s.rand)
	}
	return true
}

// take samples up to n items.
func (s *shard) take(t *table, n int) answer {
	most := min(n, batchItems)
	a := answer{Run: s.run, Size: t.size(), Probabilities: make([]float64, 0, most)}
	items := make([]item, 0, most)
	for ; n > 0 && t.maySample(1) > 0; n-- {
		it, p := t.sample(s.rand)
		items = append(items, it)
		a.Probabilities = append(a.Probabilities, p)
	}
	a.Mass = t.mass()
	a.fill(items)
	return a
}

// fill makes the lists of an answer, each of them at once: most of an answer's time is that of its memory.
func (a *answer) fill(items []item) {
	bytes, steps := 0, 0
	for _, it := range items {
		if it.chunk.large {
			a.Object = make([]int32, 0, len(items))
		} else {
			bytes += int(it.chunk.ends[it.last-1] - it.chunk.start(int(it.first)))
			steps += int(it.last - it.first)
		}
	}
	a.Data, a.Ends = make([]byte, 0, bytes), make([]uint32, 0, steps)
	a.Keys, a.Priorities = make([]uint64, 0, len(items)), make([]float64, 0, len(items))
	a.Times, a.Steps = make([]uint32, 0, len(items)), make([]uint32, 0, len(items))
	for _, it := range items {
		object := int32(-1)
		if it.chunk.large {
			object = int32(len(a.Objects))
			a.Objects = append(a.Objects, it.chunk.object)
		} else {
			at, from := uint32(len(a.Data)), it.chunk.start(int(it.first))
			for i := it.first; i < it.last; i++ {
				a.Ends = append(a.Ends, at+it.chunk.ends[i]-from)
			}
			a.Data = append(a.Data, it.chunk.data[from:it.chunk.ends[it.last-1]]...)
		}
		if a.Object != nil {
			a.Object = append(a.Object, object)
		}
		a.Keys = append(a.Keys, it.key)
		a.Priorities = append(a.Priorities, it.priority)
		a.Times = append(a.Times, uint32(it.times))
		a.Steps = append(a.Steps, uint32(it.last-it.first))
	}
}

// remembered is how many calls a shard knows, with how many of their items are in, so that one that is made again counts once, also where it
// ended early: the way to its caller broke while it waited. A Writer may make a call again minutes later.
const remembered = 32 << 10

func (s *shard) remember(id uint64, items int) {
	if s.made.Add(id, items); s.made.Len() > remembered {
		s.made.Drop()
	}
}
