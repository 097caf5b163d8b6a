package shardlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"

	"github.com/raysys/raysys/store"
)

const (
	// Parts are full, segments mostly small: what one transaction reads stays at a few MiB, rarely 16.
	partsPerRead    = 16
	segmentsPerRead = store.MaxTxnOps
	// Of a log whose segments are small, this many reads go out at the same time: with those of the shards that a node takes
	// over at once they keep its connections to the store busy. Their answers are to take no more than bytesAhead together,
	// by what those before took.
	readsAhead = 4
	bytesAhead = 4 << 20
)

// load reads snapshot and log. No other process writes them, because this one holds the leader's key.
func (s *Shard) load() (*machine, error) {
	m := newMachine()
	var man *manifest
	err := s.patiently(func(ctx context.Context) error {
		p, err := s.cfg.KV.Get(ctx, manifestKey(s.cfg.Shard))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		s.sizes.manifest = p.Modify
		man, err = decodeManifest(p.Value)
		return err
	})
	if err != nil {
		return nil, err
	}
	if man != nil {
		if err := s.loadParts(m, man); err != nil {
			return nil, err
		}
	}
	if err := s.replay(m); err != nil {
		return nil, err
	}
	if m.next == 1 {
		// An empty log. If there is a later segment, the beginning is lost.
		var keys []string
		err := s.patiently(func(ctx context.Context) (err error) {
			keys, err = s.cfg.KV.Keys(ctx, shardLog(s.cfg.Shard))
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(keys) > 0 {
			return nil, fmt.Errorf("%w: the log of shard %d has %d segments from %s on, but no snapshot and no beginning: restore the store from a copy", store.ErrCorrupt, s.cfg.Shard, len(keys), keys[0])
		}
	}
	return m, nil
}

func (s *Shard) loadParts(m *machine, man *manifest) error {
	folder := snapFolder(s.cfg.Shard, man.next, man.id)
	for from := 0; from < len(man.sums); from += partsPerRead {
		var ops []store.Op
		for i := from; i < min(from+partsPerRead, len(man.sums)); i++ {
			ops = append(ops, store.Read(partKey(folder, i)))
		}
		pairs, err := s.read(ops)
		if err != nil {
			return err
		}
		for i, p := range pairs {
			part := from + i
			if p.Create == 0 || crc32.Checksum(p.Value, castagnoli) != man.sums[part] {
				return fmt.Errorf("%w: %s is not what its manifest says: restore the store from a copy", store.ErrCorrupt, p.Key)
			}
			b, err := decodeBlock(blockPart, p.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Key, err)
			}
			if b.id != man.id || b.seq != uint64(part) {
				return fmt.Errorf("%w: %s is a part of another snapshot", store.ErrCorrupt, p.Key)
			}
			if err := m.load(b); err != nil {
				return fmt.Errorf("%s: %w", p.Key, err)
			}
		}
	}
	m.epoch, m.next = man.epoch, man.next
	s.base.next, s.base.folder = man.next, folder
	s.sizes.snapshot = int(man.size)
	return nil
}

// replay applies the log from m.next on, a few reads at a time.
func (s *Shard) replay(m *machine) error {
	for ahead := 1; ; {
		pairs, err := s.readSegments(m.next, ahead)
		if err != nil {
			return err
		}
		size := 0
		for i, p := range pairs {
			if p.Create == 0 {
				if j := slices.IndexFunc(pairs[i:], func(p store.Pair) bool { return p.Create != 0 }); j >= 0 {
					return fmt.Errorf("%w: the log of shard %d has %s but not %s: restore the store from a copy", store.ErrCorrupt, s.cfg.Shard, pairs[i+j].Key, p.Key)
				}
				return nil
			}
			b, err := decodeBlock(blockSegment, p.Value)
			if err == nil {
				err = m.apply(b)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.Key, err)
			}
			s.sizes.add(len(p.Value))
			size += len(p.Value)
		}
		ahead = min(max(bytesAhead*ahead/max(size, 1), 1), readsAhead)
	}
}

// readSegments makes that many reads of the log at the same time, and returns what they read in order.
func (s *Shard) readSegments(from uint64, reads int) ([]store.Pair, error) {
	pairs, errs := make([][]store.Pair, reads), make([]error, reads)
	var reading sync.WaitGroup
	for n := range reads {
		ops := make([]store.Op, segmentsPerRead)
		for i := range ops {
			ops[i] = store.Read(segmentKey(s.cfg.Shard, from+uint64(n*segmentsPerRead+i)))
		}
		if n == reads-1 { // here
			pairs[n], errs[n] = s.read(ops)
			break
		}
		reading.Go(func() { pairs[n], errs[n] = s.read(ops) })
	}
	reading.Wait()
	return slices.Concat(pairs...), errors.Join(errs...)
}

// read reads keys in one consistent transaction.
func (s *Shard) read(ops []store.Op) (pairs []store.Pair, err error) {
	err = s.patiently(func(ctx context.Context) (err error) {
		pairs, err = s.cfg.KV.Txn(ctx, ops)
		return err
	})
	return pairs, err
}

// patiently repeats a read while the store is unavailable, until ctx ends.
func (s *Shard) patiently(f func(ctx context.Context) error) error {
	pause := newPauses()
	for {
		err := s.try(f)
		if err == nil || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		s.cfg.OnTrouble(fmt.Errorf("load shard %d: %w", s.cfg.Shard, err))
		if !pause.Wait(s.ctx) {
			return fmt.Errorf("%w: %w", context.Cause(s.ctx), err)
		}
	}
}

// stale returns the keys of the shard's log and snapshots that no leader will read again: segments before next, and
// all folders but the manifest's.
func stale(segments, snaps []string, next uint64, folder string) (old []string, err error) {
	for _, key := range segments {
		seq, err := segmentOf(key)
		if err != nil {
			return nil, err
		}
		if seq < next {
			old = append(old, key)
		}
	}
	for _, key := range snaps {
		if !strings.HasPrefix(key, folder) && !strings.HasSuffix(key, "/manifest") {
			old = append(old, key)
		}
	}
	return old, nil
}
