package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys/store"
)

// Config says where the store lives. The zero Config is in memory.
type Config struct {
	// Dir is the data directory, made when it is not there. Empty: memory only.
	Dir string
	// MaxBytes bounds the file in Dir; 0 means the disk does. Beyond it changes fail with store.ErrUnavailable.
	MaxBytes int
	// Clock is what sessions run on; nil means the system's.
	Clock Clock
}

// Store is a store.KV. Make it with Open.
type Store struct {
	clock   Clock
	disk    *disk         // nil in memory
	closing chan struct{} // closed by Close
	queue   chan *request // with a disk: what waits for the committer; never closed
	ended   chan struct{} // closed by the committer when it takes nothing more
	owned   sync.WaitGroup

	mu        sync.RWMutex // guards what follows, and is held while a change goes to disk, so that none is seen before
	st        *state
	deletions deletions
	watchers  map[*watcher]struct{}
	failed    error // the content of the disk is no longer known
	closed    bool
}

var _ store.KV = (*Store)(nil)

// request is a change on its way through the committer.
type request struct {
	run   func(index uint64) ([]store.Pair, error) // under mu
	pairs []store.Pair
	err   error
	done  chan struct{} // closed by the committer
}

// maxBatch bounds how many changes share one fsync, and how many wait.
const maxBatch = 256

// Open makes a store, or opens the one in cfg.Dir. ErrInUse when another process has it open, ErrCorrupt when it is
// damaged, ErrTooNew when a newer version wrote it.
func Open(cfg Config) (*Store, error) {
	s := &Store{
		clock:    cfg.Clock,
		closing:  make(chan struct{}),
		st:       newState(),
		watchers: map[*watcher]struct{}{},
	}
	if s.clock == nil {
		s.clock = systemClock{}
	}
	if cfg.Dir != "" {
		d, err := openDisk(cfg.Dir, cfg.MaxBytes, s.st)
		if err != nil {
			return nil, fmt.Errorf("open store in %s: %w", cfg.Dir, err)
		}
		s.disk = d
		s.queue = make(chan *request, maxBatch)
		s.ended = make(chan struct{})
		s.owned.Go(s.commits)
	}
	s.deletions.floor = s.st.index
	return s, nil
}

// Close ends watches and sessions' timers, and waits for changes under way. It is idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	for _, ses := range s.st.sessions {
		ses.stop()
	}
	for w := range s.watchers {
		w.wake(s)
	}
	s.mu.Unlock()
	s.owned.Wait()
	if s.disk == nil {
		return nil
	}
	return s.disk.close()
}

// usable says why nothing can be done, with mu held.
func (s *Store) usable() error {
	if s.closed {
		return store.ErrClosed
	}
	return s.failed
}

// change runs a change to its end: in memory at once, with a disk when it is durable.
func (s *Store) change(ctx context.Context, what string, run func(index uint64) ([]store.Pair, error)) ([]store.Pair, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	r := &request{run: run}
	if s.disk == nil {
		s.commit([]*request{r})
	} else {
		r.done = make(chan struct{})
		select {
		case s.queue <- r:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-s.closing:
			return nil, fmt.Errorf("%s: %w", what, store.ErrClosed)
		}
		select {
		case <-r.done:
		case <-s.ended:
			select {
			case <-r.done:
			default: // it was queued too late
				return nil, fmt.Errorf("%s: %w", what, store.ErrClosed)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w: %w", what, store.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("%s: %w", what, r.err)
	}
	return r.pairs, nil
}

// commits is the goroutine that writes to disk: whatever waits goes into one transaction of bbolt.
func (s *Store) commits() {
	for {
		var batch []*request
		select {
		case r := <-s.queue:
			batch = append(batch, r)
		case <-s.closing:
			s.refuseRest()
			close(s.ended)
			return
		}
		for len(batch) < maxBatch && len(s.queue) > 0 {
			batch = append(batch, <-s.queue)
		}
		s.commit(batch)
		for _, r := range batch {
			close(r.done)
		}
	}
}

// refuseRest answers the calls that were queued when the store was closed. A caller that queues after that sees
// ended.
func (s *Store) refuseRest() {
	for {
		select {
		case r := <-s.queue:
			r.err = store.ErrClosed
			close(r.done)
		default:
			return
		}
	}
}

// commit runs the requests in order, makes their changes durable and wakes the watches, or takes all of it back.
func (s *Store) commit(batch []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		for _, r := range batch {
			r.err = err
		}
		return
	}
	st := s.st
	first := st.index
	for _, r := range batch {
		n := len(st.changes)
		r.pairs, r.err = r.run(st.index + 1)
		if len(st.changes) > n {
			st.index++
		}
	}
	if s.disk != nil && len(st.changes) > 0 {
		if err := s.disk.write(st.changes, st.index); err != nil {
			// No caller has seen any of it; calls that were refused may have been refused because of a change that is
			// now undone.
			st.undo(0)
			st.index = first
			if errors.Is(err, store.ErrUnknownOutcome) {
				s.failed = fmt.Errorf("%w: a write to %s ended unclear, so nothing more is done: restart the process: %w", store.ErrUnavailable, s.disk.dir, err)
			}
			for _, r := range batch {
				r.pairs, r.err = nil, err
			}
			return
		}
	}
	s.announce(st.changes, st.index)
	clear(st.changes)
	st.changes = st.changes[:0]
}

// Get implements store.KV.
func (s *Store) Get(ctx context.Context, key string) (store.Pair, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Pair{}, fmt.Errorf("get: %w", err)
	}
	if ctx.Err() != nil {
		return store.Pair{}, fmt.Errorf("get %s: %w", key, context.Cause(ctx))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return store.Pair{}, fmt.Errorf("get %s: %w", key, err)
	}
	p := s.st.pairs[key]
	if p == nil {
		return store.Pair{}, fmt.Errorf("get %s: %w", key, store.ErrNotFound)
	}
	return *p, nil
}

// List implements store.KV. Every read is consistent.
func (s *Store) List(ctx context.Context, prefix string, _ store.ReadMode) ([]store.Pair, uint64, error) {
	if ctx.Err() != nil {
		return nil, 0, fmt.Errorf("list %s: %w", prefix, context.Cause(ctx))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", prefix, err)
	}
	return s.st.list(prefix), s.st.index, nil
}

// Keys implements store.KV.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("list keys %s: %w", prefix, context.Cause(ctx))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("list keys %s: %w", prefix, err)
	}
	var keys []string
	for key := range s.st.keys.Prefix(prefix) {
		keys = append(keys, key)
	}
	return keys, nil
}

// Txn implements store.KV.
func (s *Store) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	if err := store.CheckOps(ops); err != nil {
		return nil, fmt.Errorf("transaction: %w", err)
	}
	return s.change(ctx, "transaction", func(index uint64) ([]store.Pair, error) { return s.st.txn(ops, index) })
}
