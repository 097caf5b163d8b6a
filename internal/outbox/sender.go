package outbox

import (
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
)

// Config is what a Sender needs of its grain. The functions are called without a lock.
type Config struct {
	Runtime core.Runtime
	Pool    *goroutines.Pool
	// Send delivers a message. done is called once, on any goroutine: with nil when the message has arrived, whatever
	// came of it there.
	Send func(m *Message, done func(err error))
	// Commit has a commit made, for Gone: messages have arrived, and no commit has removed them within removeAfter.
	Commit func()
	// Late is called when a message did not arrive lateTries times in a row.
	Late func(m *Message, tries int, why error)
}

const (
	removeAfter = time.Second
	lateTries   = 8 // after more than a second
)

// Sender delivers the messages of one activation of a grain.
type Sender struct {
	cfg Config

	mu      sync.Mutex // guards the rest; nothing is called with it
	box     Box
	stopped bool
	sending bool        // a goroutine runs
	more    bool        // and looks once more
	wakes   *core.Alarm // for what is paused; nil: none is set
	removes *core.Alarm // for Commit
}

// NewSender makes a Sender. It starts nothing.
func NewSender(cfg Config) *Sender { return &Sender{cfg: cfg} }

// Count is that of Box.
func (s *Sender) Count(list []*Message, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box.Count(list, by)
}

// Full is that of Box.
func (s *Sender) Full(message bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.box.Full(message)
}

// Left is how many messages have not arrived.
func (s *Sender) Left() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.box.N
}

// Add sends messages that are stored.
func (s *Sender) Add(list []*Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp(list, s.cfg.Runtime.Now())
	s.box.Add(list)
	s.lookLocked()
}

// Restore sends what is stored.
func (s *Sender) Restore(list []*Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp(list, s.cfg.Runtime.Now())
	s.box.Restore(list)
	s.lookLocked()
}

// Gone is that of Box, for a nil Sender too.
func (s *Sender) Gone(limit int) []uint64 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uint64(nil), s.box.Gone(limit)...)
}

// Behind reports whether the records of more messages that have arrived wait for a commit than a turn may bring.
func (s *Sender) Behind() bool { return len(s.Gone(MaxTurn+1)) > MaxTurn }

// Removed is that of Box.
func (s *Sender) Removed(list []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box.Removed(list)
}

// Stop has nothing more sent. What is on its way goes on.
func (s *Sender) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, a := range []*core.Alarm{s.wakes, s.removes} {
		if a != nil {
			s.cfg.Runtime.ClearAlarm(a)
		}
	}
}

// lookLocked has a goroutine look for what is to be sent.
func (s *Sender) lookLocked() {
	switch {
	case s.stopped:
	case s.sending:
		s.more = true
	default:
		s.sending = true
		s.cfg.Pool.Go(goroutines.Func(s.sendReady))
	}
}

func (s *Sender) sendReady() {
	for {
		s.mu.Lock()
		var list []*Message
		if s.more = false; !s.stopped {
			now := s.cfg.Runtime.Now()
			var again int64
			list, again = s.box.Next(now)
			if s.wakes != nil && again != 0 && again < s.wakes.At && s.cfg.Runtime.ClearAlarm(s.wakes) {
				s.wakes = nil
			}
			if again != 0 && s.wakes == nil {
				s.wakes = &core.Alarm{At: again, Ring: s.woken}
				s.cfg.Runtime.SetAlarm(s.wakes)
			}
		}
		s.mu.Unlock()
		for _, m := range list {
			s.cfg.Send(m, func(err error) { s.ended(m, err) })
		}
		s.mu.Lock()
		if !s.more {
			s.sending = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// woken is called when a pause is over.
func (s *Sender) woken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakes = nil
	s.lookLocked()
}

// ended notes what became of a message.
func (s *Sender) ended(m *Message, err error) {
	s.mu.Lock()
	tries := s.box.Ended(m, err, s.cfg.Runtime.Now())
	if err == nil && s.removes == nil && !s.stopped {
		s.removes = &core.Alarm{At: core.After(s.cfg.Runtime.Now(), removeAfter), Ring: s.remove}
		s.cfg.Runtime.SetAlarm(s.removes)
	}
	if err != nil || len(s.box.ready) > 0 {
		s.lookLocked()
	}
	s.mu.Unlock()
	if tries == lateTries && s.cfg.Late != nil {
		s.cfg.Late(m, tries, err)
	}
}

// remove has a commit made, if none has removed what has arrived.
func (s *Sender) remove() {
	s.mu.Lock()
	s.removes = nil
	wanted := !s.stopped && len(s.box.gone) > 0
	s.mu.Unlock()
	if wanted {
		s.cfg.Commit()
	}
}
