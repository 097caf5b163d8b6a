package shardlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/store"
)

// commits is the goroutine that appends: one segment at a time, holding all that was proposed while the one before was
// on its way, and while other shards wrote theirs.
func (s *Shard) commits() {
	for {
		s.mu.Lock()
		idle := len(s.core.drafts) == 0 && !s.releasing
		s.mu.Unlock()
		var d *draft
		var err error
		if idle {
			select {
			case <-s.wake:
			case <-s.ctx.Done():
				err = store.ErrClosed
			}
		} else {
			d, err = s.write()
		}
		if err != nil {
			s.end(d, err)
			return
		}
	}
}

// write commits the oldest draft, or hands the shard over when none is left. With an error it returns the draft that was
// on its way.
func (s *Shard) write() (*draft, error) {
	if !s.cfg.Writers.enter(s.ctx) {
		return nil, store.ErrClosed
	}
	s.mu.Lock()
	d := s.core.take()
	s.mu.Unlock()
	if d == nil {
		defer s.cfg.Writers.leave()
		if err := s.handover(); err != nil {
			return nil, err
		}
		return nil, ErrReleased
	}
	var size int
	var err error
	if len(d.raw) == 0 {
		err = s.checkFence()
	} else {
		size, err = s.append(s.core.block(d, newNonce()), nil) // only this goroutine changes what block reads
	}
	s.cfg.Writers.leave()
	if err == nil {
		s.settle(d, size)
	}
	return d, err
}

// settle makes a draft that was committed part of the table, and answers its items. size is that of the segment.
func (s *Shard) settle(d *draft, size int) {
	s.mu.Lock()
	s.table.Lock()
	s.core.commit(d)
	s.table.Unlock()
	s.mu.Unlock()
	s.grew(size)
	for _, it := range d.items {
		it.done(it.result, it.err)
	}
}

// end answers everything that will not be committed from here. d is the draft that was on its way, if any.
func (s *Shard) end(d *draft, err error) {
	err = fmt.Errorf("shard %d, epoch %d: %w", s.cfg.Shard, s.epoch, err)
	rest := err
	if errors.Is(err, store.ErrUnknownOutcome) { // only the draft's
		rest = fmt.Errorf("shard %d, epoch %d: %w", s.cfg.Shard, s.epoch, store.ErrClosed)
	}
	s.mu.Lock()
	s.err = rest
	drafts := s.core.drafts
	s.core.drafts = nil
	s.mu.Unlock()
	s.cancel()
	if d != nil {
		for _, it := range d.items {
			it.done(Result{}, err)
		}
	}
	for _, d := range drafts {
		for _, it := range d.items {
			it.done(Result{}, rest)
		}
	}
	close(s.done)
}

// append writes a segment, and with it the ops, until it is known to be in the log or never to come there. An outcome
// that is unknown is read back before anything else (C10). The same segment may be sent several times: its number must
// not exist, so that it is there once at most.
func (s *Shard) append(b *block, with []store.Op) (size int, err error) {
	key := segmentKey(s.cfg.Shard, b.seq)
	value := b.encode()
	ops := append(append(append([]store.Op{}, s.fence...), store.CheckNotExists(key), store.Set(key, value)), with...)
	pause := newPauses()
	sent := false // it may be in the log
	for {
		err := s.try(func(ctx context.Context) error {
			_, err := s.cfg.KV.Txn(ctx, ops)
			return err
		})
		if err == nil {
			return len(value), nil
		}
		if errors.Is(err, store.ErrClosed) { // the store was closed under the shard
			return 0, s.unfinished(sent || errors.Is(err, store.ErrUnknownOutcome), err)
		}
		refused := errors.Is(err, store.ErrRefused)
		if !refused {
			sent = sent || errors.Is(err, store.ErrUnknownOutcome)
			s.cfg.OnTrouble(fmt.Errorf("append segment %d to shard %d: %w", b.seq, s.cfg.Shard, err))
		}
		if refused || sent {
			ours, rerr := s.readBack(key, b)
			switch {
			case rerr != nil:
				return 0, s.unfinished(sent, rerr)
			case ours:
				return len(value), nil
			case refused:
				return 0, fmt.Errorf("%w: %s", ErrDeposed, clip(err))
			}
		}
		if !pause.Wait(s.ctx) {
			return 0, s.unfinished(sent, store.ErrClosed)
		}
	}
}

// unfinished is what becomes of a segment when the shard is closed.
func (s *Shard) unfinished(sent bool, err error) error {
	if sent {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return err
}

// readBack reports whether the segment in the log is b, and asks until the store answers.
func (s *Shard) readBack(key string, b *block) (ours bool, err error) {
	pause := newPauses()
	for {
		var p store.Pair
		err := s.try(func(ctx context.Context) (err error) {
			p, err = s.cfg.KV.Get(ctx, key)
			return err
		})
		switch {
		case err == nil:
			there, err := decodeBlock(blockSegment, p.Value)
			return err == nil && there.epoch == b.epoch && there.id == b.id, nil
		case errors.Is(err, store.ErrNotFound):
			return false, nil
		case errors.Is(err, store.ErrClosed):
			return false, err
		}
		s.cfg.OnTrouble(fmt.Errorf("read back segment %d of shard %d: %w", b.seq, s.cfg.Shard, err))
		if !pause.Wait(s.ctx) {
			return false, store.ErrClosed
		}
	}
}

// checkFence asks whether the shard is still led from here, until the store answers.
func (s *Shard) checkFence() error {
	pause := newPauses()
	for {
		err := s.try(func(ctx context.Context) error {
			_, err := s.cfg.KV.Txn(ctx, s.fence)
			return err
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrRefused):
			return fmt.Errorf("%w: %s", ErrDeposed, clip(err))
		case errors.Is(err, store.ErrClosed):
			return err
		}
		s.cfg.OnTrouble(fmt.Errorf("fence of shard %d: %w", s.cfg.Shard, err))
		if !pause.Wait(s.ctx) {
			return store.ErrClosed
		}
	}
}

// handover commits the last record of this leader and, with it, gives its key up.
func (s *Shard) handover() error {
	b := s.core.block(&draft{first: s.core.seq, raw: appendHandover(nil, s.cfg.Node)}, newNonce())
	_, err := s.append(b, []store.Op{store.Delete(LeaderKey(s.cfg.Shard))})
	return err
}

// try makes one attempt within the timeout.
func (s *Shard) try(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	return f(ctx)
}

// newPauses has the pauses between attempts: the first is short, because most trouble is, and the last is shorter than
// a lease, so that work goes on soon after the store is back.
func newPauses() backoff.Doubling {
	return backoff.Doubling{First: 2 * time.Millisecond, Longest: 500 * time.Millisecond}
}
