package outbox

import (
	"cmp"
	"slices"
	"time"
)

// Waiting is what of a grain's messages has not arrived.
type Waiting struct {
	Oldest    time.Duration // how long the oldest has waited on this node
	Receivers []Receiver    // messages that cannot be read, and then those with the most messages
}

// Receiver is one to which messages have not arrived.
type Receiver struct {
	Kind, To string // those of its messages; Unreadable and its Hex of one that cannot be read
	Messages int
	Tries    int   // in vain, in a row
	Why      error // of the last such try, or why it cannot be read; nil without one
}

func (r Receiver) rank() int {
	if r.Kind == Unreadable {
		return 1
	}
	return 0
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
			switch {
			case m.Bad != nil:
				w.Receivers = append(w.Receivers, Receiver{Unreadable, Hex(m.Number), 1, 0, m.Bad})
			case m.state != arrived:
				r.Messages++
			}
		}
		since = min(since, l.queue[0].since)
		if r.Messages == 0 {
			continue
		}
		if r.Tries > 0 {
			r.Why = l.why
		}
		w.Receivers = append(w.Receivers, r)
	}
	w.Oldest = time.Duration(now - since)
	slices.SortFunc(w.Receivers, func(a, b Receiver) int {
		return cmp.Or(
			cmp.Compare(b.rank(), a.rank()), cmp.Compare(b.Messages, a.Messages),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.To, b.To))
	})
	w.Receivers = w.Receivers[:min(most, len(w.Receivers))]
	return w
}

// Late reports whether messages pile up: they are above half of their bound, or one has waited for that long on this
// node.
func (s *Sender) Late(long time.Duration) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box.N >= Max/2 || s.box.Size >= MaxBytes/2 {
		return true
	}
	before := s.cfg.Runtime.Now() - int64(long)
	for _, l := range s.box.lines {
		if l.queue[0].since <= before {
			return true
		}
	}
	return false
}

// stamp notes when messages came to this node.
func stamp(list []*Message, now int64) {
	for _, m := range list {
		m.since = now
	}
}

// Drop is that of Box.
func (s *Sender) Drop(match func(*Message) bool) (n int, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, last = s.box.Drop(match)
	s.lookLocked()
	return n, last
}
