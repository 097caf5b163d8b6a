package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
)

// sizes says how large the shard is in the store. The goroutines that commit and compact use parts of their own, but
// for log, which lock guards.
type sizes struct {
	lock     sync.Mutex
	log      int    // cost of the segments that the snapshot lacks
	commits  uint64 // segments appended
	snapshot int    // bytes of the snapshot
	manifest uint64 // index of the manifest's key, 0 for none

	compacted atomic.Uint64 // snapshots that were made
}

// segmentCost is what a segment counts at least: a log of many small ones takes long to read, whatever its bytes.
const segmentCost = 1 << 10

func logCost(size int) int { return max(size, segmentCost) }

// grew counts a segment and wakes the compaction when the log is large enough. A size of 0 only looks.
func (s *Shard) grew(size int) {
	s.sizes.lock.Lock()
	defer s.sizes.lock.Unlock()
	if size > 0 {
		s.sizes.log += logCost(size)
		s.sizes.commits++
	}
	if s.due() {
		signal(s.full)
	}
}

// due reports whether the log should be compacted (C11), with sizes.lock held.
func (s *Shard) due() bool { return s.sizes.log > max(s.cfg.CompactAt, 2*s.sizes.snapshot) }

// compactions is the goroutine that compacts.
func (s *Shard) compactions() {
	for {
		select {
		case <-s.full:
		case <-s.ctx.Done():
			return
		}
		pause := backoff{}
		for {
			s.sizes.lock.Lock()
			due := s.due()
			s.sizes.lock.Unlock()
			if !due {
				break
			}
			err := s.compact()
			if err == nil {
				s.sizes.compacted.Add(1)
				break
			}
			if errors.Is(err, ErrRefused) || errors.Is(err, ErrClosed) || s.ctx.Err() != nil {
				return // the committer notices by itself
			}
			s.cfg.OnTrouble(fmt.Errorf("compact shard %d: %w", s.cfg.Shard, err))
			if pause.wait(s.ctx) != nil {
				return
			}
		}
	}
}

// compact writes a snapshot, then its manifest, which makes it count, then deletes what it replaces. A crash between
// two steps leaves the older snapshot in force or waste behind, which the next compaction clears; every step carries
// the fence (C11).
func (s *Shard) compact() error {
	s.sizes.lock.Lock()
	covered := s.sizes.log // of segments that are in the machine already: see settle
	s.sizes.lock.Unlock()
	s.table.RLock()
	man := &manifest{epoch: s.core.machine.epoch, next: s.core.machine.next, id: newNonce()}
	s.table.RUnlock()

	folder := snapFolder(s.cfg.Shard, man.next, man.id)
	c := cursor{}
	for {
		s.table.RLock()
		raw := s.core.machine.part(&c)
		s.table.RUnlock()
		if raw == nil {
			break
		}
		if len(man.sums) == maxParts {
			return fmt.Errorf("%w: the snapshot has more than %d parts", ErrTooLarge, maxParts)
		}
		part := block{kind: blockPart, epoch: man.epoch, seq: uint64(len(man.sums)), id: man.id, raw: raw}
		value := part.encode()
		if _, err := s.fenced(Set(partKey(folder, len(man.sums)), value)); err != nil {
			return fmt.Errorf("write part: %w", err)
		}
		man.sums = append(man.sums, crc32.Checksum(value, castagnoli))
		man.size += uint64(len(value))
	}
	if err := s.writeManifest(man); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	s.sizes.lock.Lock()
	s.sizes.log -= covered
	s.sizes.snapshot = int(man.size)
	s.sizes.lock.Unlock()
	if err := s.sweep(man.next, folder); err != nil {
		return fmt.Errorf("delete what the snapshot replaces: %w", err)
	}
	return nil
}

// writeManifest is conditional on the manifest before, so that an attempt that comes in late cannot bring back an
// older one.
func (s *Shard) writeManifest(man *manifest) error {
	key, value := manifestKey(s.cfg.Shard), man.encode()
	for {
		pairs, err := s.fenced(CheckAndSet(key, value, s.sizes.manifest))
		if err == nil {
			s.sizes.manifest = pairs[0].Modify
			return nil
		}
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.Index < len(s.fence) {
			return err
		}
		// It was written by this leader, in an attempt whose outcome was unknown: this very one, or one before.
		var p Pair
		rerr := s.try(func(ctx context.Context) (err error) {
			p, err = s.cfg.KV.Get(ctx, key)
			return err
		})
		if rerr != nil && !errors.Is(rerr, ErrNotFound) {
			return rerr
		}
		s.sizes.manifest = p.Modify
		if bytes.Equal(p.Value, value) {
			return nil
		}
	}
}

// sweep deletes segments before next and all folders of snapshots but one.
func (s *Shard) sweep(next uint64, folder string) error {
	var segments, snaps []string
	err := s.try(func(ctx context.Context) (err error) {
		if segments, err = s.cfg.KV.Keys(ctx, shardLog(s.cfg.Shard)); err != nil {
			return err
		}
		snaps, err = s.cfg.KV.Keys(ctx, shardSnaps(s.cfg.Shard))
		return err
	})
	if err != nil {
		return err
	}
	old, err := stale(segments, snaps, next, folder)
	if err != nil {
		return err
	}
	for len(old) > 0 {
		n := min(len(old), MaxTxnOps-len(s.fence))
		ops := make([]Op, n)
		for i, key := range old[:n] {
			ops[i] = Delete(key)
		}
		if _, err := s.fenced(ops...); err != nil {
			return err
		}
		old = old[n:]
	}
	return nil
}

// fenced runs operations that may be repeated, under the fence, a few times while the store is in trouble. It returns
// their pairs.
func (s *Shard) fenced(ops ...Op) (pairs []Pair, err error) {
	pause := backoff{}
	for range 5 {
		err = s.try(func(ctx context.Context) (err error) {
			pairs, err = s.cfg.KV.Txn(ctx, append(append([]Op{}, s.fence...), ops...))
			return err
		})
		if err == nil {
			return pairs[len(s.fence):], nil
		}
		if errors.Is(err, ErrRefused) || pause.wait(s.ctx) != nil {
			return nil, err
		}
	}
	return nil, err
}

// Stats is what a shard has done and how large it is.
type Stats struct {
	Records       int
	Bytes         int    // of keys and values in memory
	Queued        int    // proposals not yet committed
	Commits       uint64 // segments appended by this leader
	LogBytes      int    // of segments since the snapshot, each counting at least 1 KiB
	SnapshotBytes int
	Compactions   uint64 // by this leader
}

// Stats returns figures of the moment.
func (s *Shard) Stats() Stats {
	s.mu.Lock()
	st := Stats{Records: len(s.core.machine.records), Bytes: s.core.machine.bytes, Queued: s.core.items}
	s.mu.Unlock()
	s.sizes.lock.Lock()
	st.Commits, st.LogBytes, st.SnapshotBytes = s.sizes.commits, s.sizes.log, s.sizes.snapshot
	s.sizes.lock.Unlock()
	st.Compactions = s.sizes.compacted.Load()
	return st
}
