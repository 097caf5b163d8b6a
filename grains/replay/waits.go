package replay

import (
	"container/list"
	"context"
	"time"

	"github.com/raysys/raysys/grains"
)

// Calls that a limiter keeps stand in lines: of each table one for inserts and one for samples. A limiter decides for all of a line alike, so
// only the first of each has to be looked at, however many wait.

// waits has the lines of a shard; its mu guards them.
type waits struct {
	lines   []line                // by table
	inserts map[uint64]*inserting // that stand in a line, by the IDs of their batches
	looked  int                   // how many calls pump has looked at
}

type line struct{ inserts, samples list.List }

type inserting struct {
	waiting
	later *grains.Later[uint64]
	batch batch
	chunk *chunk
	next  int // the item that waits
}

type sampling struct {
	waiting
	later *grains.Later[answer]
	ask   question
}

// waiting is what both have. One that was cancelled leaves when it is the first, or by its timer.
type waiting struct {
	timer *time.Timer
	ended context.Context
	line  *list.List
	at    *list.Element // nil while it stands in none
}

func (w *waiting) over() bool { return w.ended.Err() != nil }

// leave takes a call out of its line.
func (w *waiting) leave() {
	w.line.Remove(w.at)
	if w.at = nil; w.timer != nil {
		w.timer.Stop()
	}
}

// before reports whether others wait for the table of the insert's next item.
func (w *waits) before(in *inserting) bool {
	return in.next < len(in.batch.Tables) && w.lines[in.batch.Tables[in.next]].inserts.Len() > 0
}

// insert puts a call at the end of the line of its next item.
func (w *waits) insert(in *inserting) {
	if w.inserts == nil {
		w.inserts = map[uint64]*inserting{}
	}
	in.line = &w.lines[in.batch.Tables[in.next]].inserts
	in.at = in.line.PushBack(in)
	w.inserts[in.batch.ID] = in
}

// replace puts a call in the place of another with its ID.
func (w *waits) replace(old, in *inserting) {
	in.line, in.at = old.line, old.line.InsertBefore(in, old.at)
	old.leave()
	w.inserts[in.batch.ID] = in
}

func (w *waits) sample(ask *sampling) {
	ask.line = &w.lines[ask.ask.Table].samples
	ask.at = ask.line.PushBack(ask)
}

// gone takes an insert out, with what is in of it.
func (s *shard) gone(in *inserting) {
	in.leave()
	delete(s.waits.inserts, in.batch.ID)
	s.remember(in.batch.ID, in.next)
}

// endings are calls that end, once mu is free: what waits for them may run at once.
type endings []func()

func (e endings) settle() {
	for _, f := range e {
		f()
	}
}

// inserted ends an insert of which all is in.
func (s *shard) inserted(in *inserting) func() {
	return func() { _ = in.later.Settle(s.run) } // fails for a caller that is gone
}

// sampled takes samples for a question.
func (s *shard) sampled(ask *sampling) func() {
	a := s.take(s.tables[ask.ask.Table], ask.ask.N)
	return func() { _ = ask.later.Settle(a) }
}

// pump lets calls that wait go on, as far as the limiters allow; mu is held.
func (s *shard) pump(ends endings) endings {
	for moved := true; moved; {
		moved = false
		for i, t := range s.tables {
			line := &s.waits.lines[i]
			for at := line.inserts.Front(); at != nil; at = line.inserts.Front() {
				in, before := at.Value.(*inserting), at.Value.(*inserting).next
				s.waits.looked++
				if in.over() {
					s.gone(in)
					continue
				}
				all := s.advance(in)
				moved = moved || in.next > before
				if all {
					s.gone(in)
					ends = append(ends, s.inserted(in))
				} else if int(in.batch.Tables[in.next]) != i {
					line.inserts.Remove(at)
					s.waits.insert(in)
				} else {
					break
				}
			}
			for at := line.samples.Front(); at != nil; at = line.samples.Front() {
				ask := at.Value.(*sampling)
				s.waits.looked++
				if ask.over() {
					ask.leave()
					continue
				}
				if t.maySample(1) == 0 {
					break
				}
				moved = true
				ask.leave()
				ends = append(ends, s.sampled(ask))
			}
		}
	}
	return ends
}

// lateInsert ends a call that has waited for as long as its caller allows.
func (s *shard) lateInsert(in *inserting) {
	s.mu.Lock()
	if in.at == nil {
		s.mu.Unlock()
		return
	}
	s.gone(in)
	err := s.tables[in.batch.Tables[in.next]].shut(true, s.number)
	err.Done = in.next
	s.mu.Unlock()
	_ = in.later.Fail(err) // it may have ended otherwise
}

func (s *shard) lateSample(ask *sampling) {
	s.mu.Lock()
	if ask.at == nil {
		s.mu.Unlock()
		return
	}
	ask.leave()
	err := s.tables[ask.ask.Table].shut(false, s.number)
	s.mu.Unlock()
	_ = ask.later.Fail(err)
}

// withdraw ends the questions of a Sampler that wait; mu is held.
func (s *shard) withdraw(q question) (ends endings) {
	line := &s.waits.lines[q.Table].samples
	for at := line.Front(); q.Sampler != 0 && at != nil; {
		ask := at.Value.(*sampling)
		at = at.Next()
		if ask.ask.Sampler == q.Sampler {
			ask.leave()
			err := s.tables[q.Table].shut(false, s.number)
			ends = append(ends, func() { _ = ask.later.Fail(err) })
		}
	}
	return ends
}
