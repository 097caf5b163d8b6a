package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/raysys/raysys/store"
)

// session is a lease on the keys that it holds. Its fields but ttl are guarded by Store.mu.
type session struct {
	id, name string
	ttl      time.Duration
	until    time.Time
	keys     map[string]struct{}
	stop     func() bool // the timer that will look whether until has passed
}

// NewSession implements store.KV. Any positive ttl will do.
func (s *Store) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		return "", fmt.Errorf("new session %q: %w: its ttl is %v", name, store.ErrBadOp, ttl)
	}
	ses := &session{id: rand.Text(), name: name, ttl: ttl, keys: map[string]struct{}{}}
	_, err := s.change(ctx, "new session "+name, func(uint64) ([]store.Pair, error) {
		s.st.sessions[ses.id] = ses
		s.arm(ses)
		return nil, nil
	})
	return ses.id, err
}

// arm begins the TTL anew, with mu held.
func (s *Store) arm(ses *session) {
	ses.until = s.clock.Now().Add(ses.ttl)
	s.await(ses, ses.ttl)
}

func (s *Store) await(ses *session, d time.Duration) {
	ses.stop = s.clock.AfterFunc(d, func() { s.expire(ses) })
}

// expire ends the session if its time has passed; otherwise it was renewed meanwhile, and the timer is set to the rest.
// So a renewal touches no timer.
func (s *Store) expire(ses *session) {
	s.mu.Lock()
	if s.closed || s.st.sessions[ses.id] != ses {
		s.mu.Unlock()
		return
	}
	if rest := ses.until.Sub(s.clock.Now()); rest > 0 {
		s.await(ses, rest)
		s.mu.Unlock()
		return
	}
	s.owned.Add(1) // under mu and before closed, so that Close waits
	s.mu.Unlock()
	defer s.owned.Done()
	_, err := s.change(context.Background(), "expire session "+ses.name, func(uint64) ([]store.Pair, error) {
		if s.clock.Now().Before(ses.until) {
			return nil, nil // renewed while this waited for its turn
		}
		s.st.destroy(ses.id)
		return nil, nil
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.st.sessions[ses.id] != ses {
			return
		}
		s.await(ses, max(ses.until.Sub(s.clock.Now()), time.Millisecond))
		return
	}
	// The disk has refused the end of the session. Its holder learns that it is over (see Renew); its keys are deleted once the
	// disk accepts that.
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.await(ses, time.Second)
	}
}

// live returns the session unless it is gone or over, with mu held.
func (s *Store) live(id string) *session {
	ses := s.st.sessions[id]
	if ses == nil || !s.clock.Now().Before(ses.until) {
		return nil
	}
	return ses
}

// Renew implements store.KV.
func (s *Store) Renew(ctx context.Context, id string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("renew session %s: %w", id, context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return fmt.Errorf("renew session %s: %w", id, err)
	}
	ses := s.live(id)
	if ses == nil {
		return fmt.Errorf("renew session %s: %w", id, store.ErrSessionGone)
	}
	ses.until = s.clock.Now().Add(ses.ttl)
	return nil
}

// Destroy implements store.KV.
func (s *Store) Destroy(ctx context.Context, id string) error {
	_, err := s.change(ctx, "destroy session "+id, func(uint64) ([]store.Pair, error) {
		if ses := s.st.sessions[id]; ses != nil {
			ses.stop()
			s.st.destroy(id)
		}
		return nil, nil
	})
	return err
}

// Session implements store.KV.
func (s *Store) Session(ctx context.Context, id string) (bool, error) {
	if ctx.Err() != nil {
		return false, fmt.Errorf("read session %s: %w", id, context.Cause(ctx))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return false, fmt.Errorf("read session %s: %w", id, err)
	}
	return s.live(id) != nil, nil
}
