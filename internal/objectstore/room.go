package objectstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
)

// maxSpilling bounds how many callers write spill files at a time: a disk does not get faster with more.
const maxSpilling = 2

// errNoRoom says that memory cannot be had now; the disk may still do.
var errNoRoom = errors.New("no room in memory")

// charge counts n bytes of memory, or takes them back. The store's mutex is held, as it is for all that follows here.
func (s *Store) charge(n int64) {
	s.used += n
	if n > 0 {
		s.added += n
	}
	if n < 0 {
		s.wake()
	}
}

// wake makes all goroutines that wait for room look again.
func (s *Store) wake() {
	if s.waiting > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// makeRoom reserves n bytes: s.reserved holds them until they are charged. It returns errNoRoom when everything that is
// left is in use. The mutex is given up while bytes move.
func (s *Store) makeRoom(ctx context.Context, n int64) error {
	refused := map[*Object]bool{}
	fine := func(o *Object) bool { return !refused[o] }
	var trouble error
	for {
		if err := s.usable(ctx); err != nil {
			return err
		}
		if s.used+s.reserved+n <= s.config.Budget {
			s.reserved += n
			return nil
		}
		if n > s.config.Budget {
			return fmt.Errorf("%w: %d bytes are more than the whole budget of %d", errNoRoom, n, s.config.Budget)
		}
		if len(s.warm.idle) > 0 {
			s.cool()
			continue
		}
		if o := s.copies.first(fine); o != nil {
			refused[o] = !s.drop(o)
			continue
		}
		if o := s.redundants.first(fine); o != nil {
			refused[o] = !s.thin(o)
			continue
		}
		o := s.primaries.first(fine)
		switch {
		case o != nil && trouble == nil && s.spilling < maxSpilling:
			if s.press() {
				continue
			}
			if err := s.spill(ctx, o); err != nil {
				refused[o] = true
				if !errors.Is(err, errInUse) && !errors.Is(err, raysys.ErrEncode) {
					trouble = err
				}
			}
		case s.freeing > 0:
			s.waiting++
			err := s.await(ctx, s.changed)
			s.waiting--
			if err != nil {
				return fmt.Errorf("wait for %d bytes of room: %w", n, err)
			}
		case trouble != nil:
			if s.pressLast() {
				clear(refused)
				trouble = nil
				continue
			}
			return fmt.Errorf("%w: %w", errNoRoom, trouble)
		default:
			return fmt.Errorf("%w: %d of %d bytes are in use", errNoRoom, s.used+s.reserved, s.config.Budget)
		}
	}
}

// press asks for a collection before primaries are spilled, unless it just did.
func (s *Store) press() bool {
	if s.config.Pressure == nil || s.added < s.config.Budget/4 {
		return false
	}
	s.collect()
	return true
}

// lastEvery is the least time between two collections that pressLast asks for: a store that stays full fails many
// calls, and a collection of a large heap takes much of the processor.
const lastEvery = time.Second

// pressLast asks for a collection before a call fails because the disk does not help either. Nothing can be added to a
// full store, so press alone would never ask again, and garbage would keep the store full.
func (s *Store) pressLast() bool {
	if s.config.Pressure == nil || s.config.Now().Sub(s.collected) < lastEvery {
		return false
	}
	s.collect()
	return true
}

// collect asks for a collection. The mutex is given up meanwhile.
func (s *Store) collect() {
	s.added, s.collected = 0, s.config.Now()
	s.freeing++
	s.unlock()
	s.config.Pressure()
	s.mu.Lock()
	s.collected = s.config.Now()
	s.freed()
}

// freed ends a stretch that s.freeing counted.
func (s *Store) freed() {
	s.freeing--
	s.wake()
}

// cool unmaps the warm segment that was idle longest.
func (s *Store) cool() {
	seg := s.warm.remove(0)
	n := int64(len(seg.mem))
	s.freeing++
	s.unlock()
	seg.destroy()
	s.mu.Lock()
	s.segments--
	s.charge(-n)
	s.freed()
}

// retire takes a segment whose object has no use for it: it stays warm, or its memory is given back at the next unlock.
func (s *Store) retire(seg *segment) {
	if s.closed || s.used > s.config.Budget || !s.warm.keep(seg) {
		s.destroy(seg)
		return
	}
	s.used += int64(len(seg.mem)) // the bytes that the object is about to give back
}

// destroy gives a segment back at the next unlock.
func (s *Store) destroy(seg *segment) {
	if !seg.foreign {
		s.segments--
	}
	s.trash = append(s.trash, seg.destroy)
}

// forget asks the value of o to go. The mutex is given up meanwhile; o is in its slot.
func (s *Store) forget(o *Object) bool {
	v := o.value
	if v == nil {
		return true
	}
	s.freeing++
	s.unlock()
	gone := v.Evict()
	s.mu.Lock()
	s.freed()
	if gone && o.value == v {
		o.value = nil
	}
	return gone
}

// drop gives a copy up, whole.
func (s *Store) drop(o *Object) bool {
	o.op = make(chan struct{}) // no operation has o: it was in a chain
	o.room.remove()
	before := o.charged
	if !s.forget(o) || o.users > 0 || o.pins > 0 || o.primary {
		if o.users == 0 && o.pins == 0 && o.value != nil { // the value stays; its other forms can go
			o.encoding, o.heap = nil, nil
			o.dropSegment()
		}
		o.end()
		return o.charged < before
	}
	version, known := o.version, o.sums != nil
	s.count.dropped++
	o.unlist()
	o.strip()
	if o.file != nil {
		o.dropFile()
	}
	o.end()
	if h := s.config.Hooks.Dropped; h != nil && known {
		s.later(func() { h(version) })
	}
	return true
}

// thin drops a form that another one makes needless.
func (s *Store) thin(o *Object) bool {
	o.op = make(chan struct{})
	o.room.remove()
	before := o.charged
	switch {
	case o.value != nil && (o.encoding != nil || o.heap != nil || o.seg != nil):
		o.encoding, o.heap = nil, nil
		o.dropSegment()
	case o.value != nil:
		s.forget(o)
	case o.file != nil:
		o.heap = nil
		o.dropSegment()
	default:
		o.heap = nil
	}
	o.end()
	return o.charged < before
}
