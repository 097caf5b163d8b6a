package member

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// State is what a member may do.
type State int32

const (
	// Active: the lease is good.
	Active State = iota
	// Suspended: the lease ran out. Nothing is committed or placed, everything is kept.
	Suspended
	// Fenced: this incarnation is over, because the session is gone or a vote ended it.
	Fenced
	// Left: the member left by itself.
	Left
)

func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Suspended:
		return "suspended"
	case Fenced:
		return "fenced"
	case Left:
		return "left"
	}
	return fmt.Sprintf("state %d", int32(s))
}

// State is what the member may do now, by the clock: it says Suspended the moment the lease is over, before OnState does.
func (m *Member) State() State {
	s := State(m.state.Load())
	if s == Active && m.Lease() == 0 {
		return Suspended
	}
	return s
}

// Err is nil while the member is Active, and otherwise says why it is not: it matches ErrSuspended, ErrFenced,
// ErrStoreReplaced or ErrClosed.
func (m *Member) Err() error {
	switch m.State() {
	case Active:
		return nil
	case Suspended:
		return fmt.Errorf("%w: node %s renewed its session last more than %v ago", raysys.ErrSuspended, m.cfg.Self.ID, m.cfg.TTL)
	}
	return *m.cause.Load()
}

// become makes the transition and reports it; Fenced and Left are final, but for a fenced member that leaves. OnState runs
// before become returns, and one call at a time.
func (m *Member) become(s State, cause error) bool {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	return m.becomeNow(s, cause)
}

// becomeNow is become with the turn taken.
func (m *Member) becomeNow(s State, cause error) bool {
	was := State(m.state.Load())
	switch {
	case was == s, was == Left, was == Fenced && s != Left:
		return false
	case s == Suspended && m.lease.left() > 0: // renewed meanwhile
		return false
	case s == Active && m.lease.left() == 0: // the renewal took longer than the lease
		return false
	}
	if s == Fenced || s == Left {
		m.lease.void()
		m.cause.CompareAndSwap(nil, &cause) // a fenced member that leaves keeps its reason
	}
	m.state.Store(int32(s))
	if m.cfg.OnState != nil {
		m.cfg.OnState(s, cause)
	}
	return true
}

// extend begins the lease anew, at the start of the renewal that went well.
func (m *Member) extend(start reading) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if s := State(m.state.Load()); s == Fenced || s == Left {
		return
	}
	m.lease.extend(start)
	m.becomeNow(Active, nil)
	signal(m.renewed)
}

// lapses is the goroutine that suspends the member when its lease runs out.
func (m *Member) lapses() {
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	for {
		if left := m.lease.left(); left > 0 {
			a.set(left)
		} else {
			m.become(Suspended, raysys.ErrSuspended)
			a.set(m.cfg.TTL)
		}
		select {
		case <-a.C:
		case <-m.renewed:
		case <-m.ctx.Done():
			return
		}
	}
}

// final reports whether an error of the renewal ends this incarnation.
func final(err error) bool {
	return errors.Is(err, raysys.ErrFenced) || errors.Is(err, raysys.ErrStoreReplaced)
}
