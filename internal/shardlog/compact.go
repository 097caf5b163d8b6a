package shardlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/store"
)

// sizes says how large the shard is in the store. The goroutines that commit and compact use parts of their own, but
// for log, which lock guards.
type sizes struct {
	lock     sync.Mutex
	log      int    // bytes of the segments that the snapshot lacks
	segments int    // how many those are
	commits  uint64 // segments appended
	snapshot int    // bytes of the snapshot
	manifest uint64 // index of the manifest's key, 0 for none

	compacted atomic.Uint64 // snapshots that were made
}

const (
	// bytesPerSegment is how much of a snapshot is read in the time that a segment of the log takes, at least. A log may
	// have as many segments as take no longer to read than the snapshot does, so that a large one is not written too often.
	bytesPerSegment = 4 << 10
	// restAfter is how long a shard has to be without a commit to be at rest.
	restAfter = 5 * time.Second
)

// add counts a segment, with lock held or before others can see it.
func (z *sizes) add(size int) {
	z.log += size
	z.segments++
}

// grew counts a segment that was appended, and wakes the compaction when the log is long. A size of 0 only looks.
func (s *Shard) grew(size int) {
	s.sizes.lock.Lock()
	if size > 0 {
		s.sizes.add(size)
		s.sizes.commits++
	}
	s.sizes.lock.Unlock()
	if due, long := s.length(); due || long {
		signal(s.full)
	}
}

// length reports whether the log is due for a compaction (C11), and whether it is too long for a shard at rest.
func (s *Shard) length() (due, long bool) {
	z := &s.sizes
	z.lock.Lock()
	defer z.lock.Unlock()
	due = z.log > max(s.cfg.CompactAt, 2*z.snapshot) || z.segments > max(s.cfg.CompactSegments, z.snapshot/bytesPerSegment)
	return due, z.segments > s.cfg.CompactSegments
}

// compactions is the goroutine that compacts: a log that is due at once, one that is long when the shard comes to rest.
// It deletes what a leader left that ended between a snapshot's manifest and the deletion of what that replaces.
func (s *Shard) compactions() {
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	swept := s.base.folder == ""
	for {
		rested := false
		select {
		case <-s.full:
		case <-rest.C:
			rested = true
		case <-s.ctx.Done():
			return
		}
		due, long := s.length()
		switch {
		case due, long && rested:
			if !s.compacted() {
				return
			}
			swept = true
		case long:
			rest.Reset(restAfter) // each commit comes by here
		case rested && !swept:
			err := s.sweep(s.base.next, s.base.folder)
			switch {
			case err == nil:
				swept = true
			case errors.Is(err, store.ErrRefused), errors.Is(err, store.ErrClosed), s.ctx.Err() != nil:
				return // as in compacted
			default:
				s.cfg.OnTrouble(fmt.Errorf("compact shard %d: delete what a leader before left: %w", s.cfg.Shard, err))
				rest.Reset(restAfter)
			}
		}
	}
}

// compacted compacts, and tries again while the store is in trouble; false when the shard is led from here no more.
func (s *Shard) compacted() bool {
	pause := newPauses()
	for {
		err := s.compact()
		if err == nil {
			s.sizes.compacted.Add(1)
			return true
		}
		if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrClosed) || s.ctx.Err() != nil {
			return false // the committer notices by itself
		}
		s.cfg.OnTrouble(fmt.Errorf("compact shard %d: %w", s.cfg.Shard, err))
		if !pause.Wait(s.ctx) {
			return false
		}
	}
}

// compact writes a snapshot, then its manifest, which makes it count, then deletes the log and the snapshot that it
// replaces. A crash between two steps leaves the older snapshot in force or waste behind, which the next leader or
// compaction clears; every step carries the fence (C11).
func (s *Shard) compact() error {
	s.sizes.lock.Lock()
	covered, segments := s.sizes.log, s.sizes.segments // they are in the machine already: see settle
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
			return fmt.Errorf("%w: the snapshot has more than %d parts", store.ErrTooLarge, maxParts)
		}
		part := block{kind: blockPart, epoch: man.epoch, seq: uint64(len(man.sums)), id: man.id, raw: raw}
		value := part.encode()
		if _, err := s.fenced(store.Set(partKey(folder, len(man.sums)), value)); err != nil {
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
	s.sizes.segments -= segments
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
		pairs, err := s.fenced(store.CheckAndSet(key, value, s.sizes.manifest))
		if err == nil {
			s.sizes.manifest = pairs[0].Modify
			return nil
		}
		refused, ok := errors.AsType[*store.RefusedError](err)
		if !ok || refused.Index < len(s.fence) {
			return err
		}
		// It was written by this leader, in an attempt whose outcome was unknown: this very one, or one before.
		var p store.Pair
		rerr := s.try(func(ctx context.Context) (err error) {
			p, err = s.cfg.KV.Get(ctx, key)
			return err
		})
		if rerr != nil && !errors.Is(rerr, store.ErrNotFound) {
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
		n := min(len(old), store.MaxTxnOps-len(s.fence))
		ops := make([]store.Op, n)
		for i, key := range old[:n] {
			ops[i] = store.Delete(key)
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
func (s *Shard) fenced(ops ...store.Op) (pairs []store.Pair, err error) {
	pause := newPauses()
	for range 5 {
		err = s.try(func(ctx context.Context) (err error) {
			pairs, err = s.cfg.KV.Txn(ctx, append(append([]store.Op{}, s.fence...), ops...))
			return err
		})
		if err == nil {
			return pairs[len(s.fence):], nil
		}
		if errors.Is(err, store.ErrRefused) || !pause.Wait(s.ctx) {
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
	LogBytes      int    // of segments since the snapshot
	LogSegments   int    // how many those are: what the next leader replays
	SnapshotBytes int
	Compactions   uint64 // by this leader
}

// Stats returns figures of the moment.
func (s *Shard) Stats() Stats {
	s.mu.Lock()
	st := Stats{Records: len(s.core.machine.records), Bytes: s.core.machine.bytes, Queued: s.core.items}
	s.mu.Unlock()
	s.sizes.lock.Lock()
	st.Commits, st.LogBytes, st.LogSegments, st.SnapshotBytes = s.sizes.commits, s.sizes.log, s.sizes.segments, s.sizes.snapshot
	s.sizes.lock.Unlock()
	st.Compactions = s.sizes.compacted.Load()
	return st
}
