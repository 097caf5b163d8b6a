package outbox

import (
	"cmp"
	"slices"
	"time"
)

// Waiting is what of a grain's messages has not arrived.
type Waiting struct {
	Oldest    time.Duration // how long the oldest has waited on this node
	Receivers []Receiver    // those with the most messages first
}

// Receiver is one to which messages have not arrived.
type Receiver struct {
	Kind, To string // those of its messages
	Messages int
	Tries    int   // in vain, in a row
	Why      error // of the last such try; nil without one
}

// Waiting says what has not arrived, with the receivers of the most messages, at most so many. A nil Sender has
// nothing.
func (s *Sender) Waiting(most int) (w Waiting) {
	if s == nil {
		return w
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.cfg.Runtime.Now()
	now := since
	for _, l := range s.box.lines {
		r := Receiver{Kind: l.queue[0].Kind, To: l.queue[0].To, Tries: l.tries}
		for _, m := range l.queue {
			if m.state != arrived {
				r.Messages++
			}
		}
		if r.Tries > 0 {
			r.Why = l.why
		}
		since = min(since, l.queue[0].since)
		w.Receivers = append(w.Receivers, r)
	}
	w.Oldest = time.Duration(now - since)
	slices.SortFunc(w.Receivers, func(a, b Receiver) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.To, b.To))
	})
	w.Receivers = w.Receivers[:min(most, len(w.Receivers))]
	return w
}

// stamp notes when messages came to this node.
func stamp(list []*Message, now int64) {
	for _, m := range list {
		m.since = now
	}
}

// Drop gives up the messages to receivers that match. It returns how many, and the number of the last;
// their records go with the next commits. What is on its way may still arrive.
func (s *Sender) Drop(match func(kind, to string) bool) (n int, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.box.lines {
		if !match(l.queue[0].Kind, l.queue[0].To) {
			continue
		}
		for _, m := range l.queue {
			if m.state != arrived {
				s.box.Count([]*Message{m}, -1)
				s.box.gone = append(s.box.gone, m.Number)
				m.state, last = dropped, m.Number
				n++
			}
		}
		if l.flight > 0 {
			s.box.active--
		}
		l.queue = nil // it may be in ready or paused
		delete(s.box.lines, key)
	}
	s.lookLocked()
	return n, last
}
