package objectstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// Form says where received bytes go.
type Form uint8

const (
	// Heap is a buffer of the collector's, for an object that is decoded.
	Heap Form = iota
	// Segment is mapped memory, which is used again while warm, for an object that is viewed. It is Heap where the
	// platform has no such memory.
	Segment
	// Disk is a spill file, for what shall not take memory. Receive takes it by itself when there is no room.
	Disk
)

func (f Form) String() string {
	return [...]string{"heap", "segment", "disk"}[f]
}

// Incoming is an object that is being received: chunks come in any order, from any number of goroutines.
type Incoming struct {
	object *Object
	man    Manifest // the part of it that was known from the start
	form   Form
	mem    []byte      // of Heap and Segment
	writer *fileWriter // of Disk
	part   *spillFile  // the file while it is written, for receivers that are served from it

	// What follows is guarded by the store's mutex.

	state   []chunkState
	buffers map[int][]byte        // lent, of Disk
	waits   map[int]chan struct{} // closed when the chunk came or nothing more comes
	left    int                   // chunks that did not come yet
	spare   [][]byte              // buffers of Disk between two chunks
	ended   bool
	err     error
	done    chan struct{} // closed when the object is complete or given up
	sums    chan struct{} // closed when all sums are known, or no more come; nil then
}

type chunkState uint8

const (
	open chunkState = iota
	lentChunk
	filled
)

// Receive begins to receive an object, as a copy. It makes room, and takes a file where there is none. It returns
// ErrPresent when the object is here or coming already; one whose bytes were lost is received anew.
func (s *Store) Receive(ctx context.Context, m Manifest, form Form) (*Incoming, error) {
	return s.ReceiveOutline(ctx, Outline{Manifest: m, Whole: true}, form)
}

// ReceiveOutline is Receive of an object whose sums come with its chunks, unless the outline is whole: see FilledWith.
func (s *Store) ReceiveOutline(ctx context.Context, m Outline, form Form) (*Incoming, error) {
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("receive object: %w", err)
	}
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("receive object %s: %w", m.ID, err)
	}
	defer s.busy.Done()
	if err := s.receivable(m); err != nil {
		return nil, fmt.Errorf("receive object %s: %w", m.ID, err)
	}
	in := &Incoming{man: m.Manifest, waits: map[int]chan struct{}{}, done: make(chan struct{})}
	seg, err := s.memoryFor(ctx, in, form)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.usable(ctx), s.receivable(m)); err != nil { // another goroutine was faster, or Close
		s.abandon(in, seg)
		return nil, fmt.Errorf("receive object %s: %w", m.ID, err)
	}
	o := s.table[m.ID]
	if o == nil {
		o = s.enlist(m.ID, m.Attempt, "received")
	}
	in.object = o
	in.left = Chunks(m.Size) // only now: a size that a peer invented finds no room
	in.state = make([]chunkState, in.left)
	switch {
	case m.Whole:
		in.man.Chunks = append([]uint32(nil), m.Chunks...)
		o.man, o.known, o.tally, o.mark = in.man, true, nil, m.Mark
	case o.known: // and lost: it is still that version, and chunks must match its sums
		in.man, o.mark = o.man, 0
	default:
		in.sums = make(chan struct{})
		o.count(m.Version, m.Mark)
	}
	o.lost, o.in = nil, in
	o.dropSegment() // a pin may have kept one that was not filled
	o.seg = seg
	o.settle()
	if in.left == 0 {
		in.finish()
	}
	return in, nil
}

// receivable reports what keeps a version from being received.
func (s *Store) receivable(m Outline) error {
	o := s.table[m.ID]
	switch {
	case o == nil:
		return nil
	case o.lost == nil || o.users > 0 || o.op != nil:
		return ErrPresent
	case o.attempt != m.Attempt || o.known && (o.man.Size != m.Size || m.Whole && o.man.Sum != m.Sum):
		return fmt.Errorf("%s is not the version that this node had, %s", m.Version, o.man.Version)
	}
	return nil
}

// memoryFor finds a place for the bytes. The mutex is given up while it does.
func (s *Store) memoryFor(ctx context.Context, in *Incoming, form Form) (seg *segment, err error) {
	size := in.man.Size
	if form == Segment && size < minSegment {
		form = Heap
	}
	if form == Segment {
		seg, err = s.segmentFor(ctx, size)
		switch {
		case err == nil:
			in.form, in.mem = Segment, seg.mem[:size:size]
			return seg, nil
		case errors.Is(err, errNoSegments):
			form = Heap
		case !errors.Is(err, errNoRoom):
			return nil, fmt.Errorf("receive object %s: %w", in.man.ID, err)
		}
	}
	if form == Heap {
		if err = s.makeRoom(ctx, size); err == nil {
			s.unlock()
			in.form, in.mem = Heap, make([]byte, size)
			s.mu.Lock()
			s.reserved -= size
			return nil, nil
		}
		if !errors.Is(err, errNoRoom) {
			return nil, fmt.Errorf("receive object %s: %w", in.man.ID, err)
		}
	}
	w, werr := s.newFile(in.man.ID, in.man.Attempt, size)
	if werr != nil {
		return nil, fmt.Errorf("%w: receive object %s of %d bytes: %w: "+makeMore, raysys.ErrStoreFull, in.man.ID, size, unless(err, werr))
	}
	in.form, in.writer, in.buffers = Disk, w, map[int][]byte{}
	in.part = &spillFile{name: w.tmp, body: w.body, length: w.length, open: &handle{file: w.file, users: 1}}
	return nil, nil
}

// unless joins the reasons why neither memory nor disk has room; the first is nil where memory was not asked.
func unless(memory, disk error) error {
	if memory == nil {
		return disk
	}
	return fmt.Errorf("%w; and on disk: %w", memory, disk)
}

// segmentFor returns a segment, warm if there is one, that nothing is charged for yet. The mutex is given up meanwhile.
func (s *Store) segmentFor(ctx context.Context, size int64) (*segment, error) {
	if s.noSegments {
		return nil, errNoSegments
	}
	if seg := s.warm.take(size); seg != nil {
		s.used -= int64(len(seg.mem)) // its object is charged in a moment, under the same mutex
		return seg, nil
	}
	for s.segments >= s.maxSegments && len(s.warm.idle) > 0 {
		s.cool()
	}
	if s.segments >= s.maxSegments {
		return nil, fmt.Errorf("%w: %d segments are as many as this process may hold", errNoSegments, s.segments)
	}
	s.segments++ // before the mutex is given up
	n := capacity(size)
	if err := s.makeRoom(ctx, n); err != nil {
		s.segments--
		return nil, err
	}
	s.unlock()
	seg, err := newSegment(n)
	s.mu.Lock()
	s.reserved -= n
	if err != nil {
		s.segments--
		if h := s.config.Hooks.Trouble; h != nil && !errors.Is(err, errNoSegments) {
			s.later(func() { h("make segment", err) })
		}
		// Memory may be short now and not later; a system call that is missing stays so.
		s.noSegments = s.noSegments || permanent(err)
		return nil, fmt.Errorf("%w: %w", errNoSegments, err)
	}
	return seg, nil
}

// abandon gives back what memoryFor found.
func (s *Store) abandon(in *Incoming, seg *segment) {
	if seg != nil {
		s.destroy(seg)
	}
	if in.writer != nil {
		s.diskUsed -= in.writer.length
		s.later(in.writer.discard)
	}
	s.wake()
}

// memory is what o's charge does not hold through a form of its own.
func (in *Incoming) memory() int64 {
	n := int64(0)
	if in.form == Heap {
		n = int64(len(in.mem))
	}
	for _, b := range in.buffers {
		n += int64(len(b))
	}
	return n
}
