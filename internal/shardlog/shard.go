package shardlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys/store"

	"github.com/raysys/raysys"
)

var (
	// ErrDeposed: the shard is led by another, or soon will be; nothing that was proposed here and not acknowledged
	// will ever be committed. Ask the new leader.
	ErrDeposed = errors.New("shard leader deposed")
	// ErrReleased: the shard was handed over by Release. It matches ErrDeposed too.
	ErrReleased = fmt.Errorf("shard released: %w", ErrDeposed)
)

// LeadConfig names the shard to lead, and the node that leads it.
type LeadConfig struct {
	KV      store.KV
	Shard   int
	Session string // the node's: the shard is led for as long as it lives
	Node    string // what others learn about the leader: see ParseLeader

	// MaxQueue bounds the proposals that are not yet committed, and MaxQueueBytes their size. Beyond them Propose
	// returns raysys.ErrOverloaded. 0 means 65,536 and 16 MiB.
	MaxQueue, MaxQueueBytes int
	// CompactAt is how many bytes the log has at least before it is compacted: it is when it also exceeds twice the
	// snapshot. 0 means 4 MiB (C11).
	CompactAt int
	// CompactSegments is how many segments the log has at least before it is compacted, whatever their bytes, since the
	// next leader reads them one by one: it is when they also exceed one for each 4 KiB of the snapshot, or when the
	// shard is at rest. 0 means 256.
	CompactSegments int
	// Writers bounds how many shards write at a time; nil bounds nothing.
	Writers Writers
	// Timeout bounds each attempt to write or read; attempts are repeated. 0 means 5 s.
	Timeout time.Duration
	// OnTrouble is called when the KV does not take a write for now, before it is tried again: from several goroutines,
	// which it must not block.
	OnTrouble func(error)
}

func (c LeadConfig) withDefaults() LeadConfig {
	if c.MaxQueue <= 0 {
		c.MaxQueue = 1 << 16
	}
	if c.MaxQueueBytes <= 0 {
		c.MaxQueueBytes = 16 << 20
	}
	if c.CompactAt <= 0 {
		c.CompactAt = 4 << 20
	}
	if c.CompactSegments <= 0 {
		c.CompactSegments = 256
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.OnTrouble == nil {
		c.OnTrouble = func(error) {}
	}
	return c
}

// Shard is a table that this process leads. Make it with Lead.
//
// Records that Get and Scan return are committed, but only a fence can tell whether this process still leads: a commit,
// or Fence. Once Done is closed the records may be out of date.
type Shard struct {
	cfg   LeadConfig
	epoch uint64
	fence []store.Op // what every write of this leader is conditional on

	ctx    context.Context // ends the goroutines' calls
	cancel context.CancelFunc
	owned  sync.WaitGroup
	wake   chan struct{} // capacity 1: there is something for the committer
	full   chan struct{} // capacity 1: the log may have to be compacted
	done   chan struct{} // closed by the committer at the end

	mu        sync.Mutex // guards core, releasing and err; taken before table
	core      *core
	releasing bool
	closing   bool
	err       error // why done is closed

	table sync.RWMutex // guards core.machine for readers; written with mu held too

	sizes sizes
	base  struct { // the snapshot that was loaded, for the goroutine that compacts
		next   uint64 // the first segment that it lacks
		folder string // "" without a snapshot
	}
}

// Epoch returns the leader's term: it is larger than that of all leaders before, of this shard and, as all come from
// one store, different from that of any other shard.
func (s *Shard) Epoch() uint64 { return s.epoch }

// Get returns the committed record of a key.
func (s *Shard) Get(key string) (Record, bool) {
	s.table.RLock()
	r, ok := s.core.machine.records[key]
	s.table.RUnlock()
	return r, ok
}

// Len returns the number of committed records.
func (s *Shard) Len() int {
	s.table.RLock()
	defer s.table.RUnlock()
	return len(s.core.machine.records)
}

// scanChunk is how many records Scan copies at a time, so that commits need not wait for its caller.
const scanChunk = 256

// Scan visits the committed records whose keys begin with prefix, in their order, until visit returns false. Commits go
// on meanwhile: each record is as it was at some moment during the scan.
func (s *Shard) Scan(prefix string, visit func(key string, r Record) bool) {
	ScanFrom(s, prefix, prefix, visit)
}

// ScanFrom is Shard.Scan without the records whose keys lie before from.
func ScanFrom(s *Shard, prefix, from string, visit func(key string, r Record) bool) {
	type entry struct {
		key string
		r   Record
	}
	chunk := make([]entry, 0, scanChunk)
	for ; ; from = chunk[len(chunk)-1].key + "\x00" {
		chunk = chunk[:0]
		s.table.RLock()
		m := s.core.machine
		for key := range m.keys.From(prefix, from) {
			if chunk = append(chunk, entry{key, m.records[key]}); len(chunk) == scanChunk {
				break
			}
		}
		s.table.RUnlock()
		for _, e := range chunk {
			if !visit(e.key, e.r) {
				return
			}
		}
		if len(chunk) < scanChunk {
			return
		}
	}
}

// Propose judges the batch against all that is committed or was proposed before, and has it committed. Then it calls
// done, once, in the order of proposals, on the shard's own goroutine, which done must not block, nor wait there for
// Release or Close:
//
//   - nil: it is committed, and Get shows it
//   - a ConflictError: a check did not hold; like a commit this is said only while the shard is led from here
//   - ErrDeposed, ErrClosed: it is not and will never be committed
//   - ErrUnknownOutcome: the shard was closed while the store had not said whether it is
//
// A batch without changes only needs the fence. When Propose itself returns an error it does not call done:
// raysys.ErrOverloaded, ErrTooLarge, ErrBadKey, ErrDeposed, ErrClosed.
func (s *Shard) Propose(b Batch, done func(Result, error)) error {
	size, err := b.check()
	if err != nil {
		return fmt.Errorf("propose to shard %d: %w", s.cfg.Shard, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case s.closing:
		return fmt.Errorf("propose to shard %d: %w", s.cfg.Shard, store.ErrClosed)
	case s.releasing:
		return fmt.Errorf("propose to shard %d: %w", s.cfg.Shard, ErrReleased)
	case s.core.items >= s.cfg.MaxQueue || s.core.bytes+size > s.cfg.MaxQueueBytes:
		return fmt.Errorf("propose to shard %d: %w: %d proposals of %d bytes wait for the store", s.cfg.Shard, raysys.ErrOverloaded, s.core.items, s.core.bytes)
	}
	s.core.propose(b, size, done)
	signal(s.wake)
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is on
	}
}

// Commit proposes the batch and waits. When ctx ends first the outcome is unknown.
func (s *Shard) Commit(ctx context.Context, b Batch) (Result, error) {
	type outcome struct {
		r   Result
		err error
	}
	out := make(chan outcome, 1)
	if err := s.Propose(b, func(r Result, err error) { out <- outcome{r, err} }); err != nil {
		return Result{}, err
	}
	select {
	case o := <-out:
		return o.r, o.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("commit to shard %d: %w: %w", s.cfg.Shard, store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// Fence returns nil if this process led the shard at some moment during the call: whatever Get returned before was then
// true (C20). Calls at the same time share one transaction.
func (s *Shard) Fence(ctx context.Context) error {
	_, err := s.Commit(ctx, Batch{})
	if errors.Is(err, store.ErrUnknownOutcome) {
		return fmt.Errorf("fence of shard %d: %w", s.cfg.Shard, context.Cause(ctx))
	}
	return err
}

// Done is closed when the shard is no longer led from here.
func (s *Shard) Done() <-chan struct{} { return s.done }

// Err returns why Done is closed: ErrDeposed, ErrReleased or ErrClosed; nil before.
func (s *Shard) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Release hands the shard over: proposed batches are committed, no more are accepted, and a last record and the
// release of the leader's key go in one transaction, so that the next leader can start at once. When ctx ends first
// the shard is closed, and free only after GiveUp, or when the session ends.
func (s *Shard) Release(ctx context.Context) error {
	s.mu.Lock()
	s.releasing = true
	s.mu.Unlock()
	signal(s.wake)
	select {
	case <-s.done:
	case <-ctx.Done():
		return fmt.Errorf("release shard %d: %w", s.cfg.Shard, errors.Join(context.Cause(ctx), s.Close()))
	}
	s.owned.Wait()
	if err := s.Err(); !errors.Is(err, ErrReleased) {
		return err
	}
	return nil
}

// Close ends the shard here without a word to the store: the session's end frees it. Proposed batches get ErrClosed,
// or ErrUnknownOutcome where they were on their way. It is idempotent and does nothing after Release.
func (s *Shard) Close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.cancel()
	s.owned.Wait()
	return nil
}

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// clip shortens a store's words for a message.
func clip(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
