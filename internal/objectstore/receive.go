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
	// Disk is a spill file, for an object that shall not take memory. Receive takes it by itself when there is no room.
	Disk
	// Sent is Segment, and not the memory of another process of this host even where that could be mapped.
	Sent
)

func (f Form) String() string {
	return [...]string{"heap", "segment", "disk", "sent"}[f]
}

// Incoming is an object that is being received: chunks come in any order, from any number of goroutines.
type Incoming struct {
	object  *Object
	version Version
	form    Form
	mem     []byte      // of Heap and Segment
	writer  *fileWriter // of Disk
	part    *spillFile  // the file while it is written, for receivers that are served from it

	// The fields below are guarded by the store's mutex.

	state   []chunkState
	buffers map[int][]byte        // lent, of Disk
	waits   map[int]chan struct{} // closed when the chunk came or nothing more comes
	left    int                   // chunks that did not come yet
	spare   [][]byte              // buffers of Disk between two chunks
	ended   bool
	err     error
	done    chan struct{} // closed when the object is complete or given up
}

type chunkState uint8

const (
	open chunkState = iota
	lentChunk
	filled
)

// Receive begins to receive an object, as a copy. It makes room, and takes a file where there is none. It returns
// ErrPresent when the object is here or coming already; one whose bytes were lost is received anew.
func (s *Store) Receive(ctx context.Context, v Version, form Form) (*Incoming, error) {
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("receive object: %w", err)
	}
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("receive object %s: %w", v.ID, err)
	}
	defer s.busy.Done()
	if err := s.receivable(v); err != nil {
		return nil, fmt.Errorf("receive object %s: %w", v.ID, err)
	}
	in := &Incoming{version: v, waits: map[int]chan struct{}{}, done: make(chan struct{})}
	seg, err := s.memoryFor(ctx, in, form)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.usable(ctx), s.receivable(v)); err != nil { // another goroutine was faster, or Close
		s.abandon(in, seg)
		return nil, fmt.Errorf("receive object %s: %w", v.ID, err)
	}
	o := s.table[v.ID]
	if o == nil {
		o = s.enlist(v, "received")
	}
	in.object = o
	in.left = Chunks(v.Size) // only now: a size that a peer invented finds no room
	in.state = make([]chunkState, in.left)
	o.measure(v.Size) // one that was lost keeps its sums, and chunks must match them
	o.lost, o.in = nil, in
	o.dropSegment() // a pin may have kept one that was not filled
	o.seg = seg
	o.settle()
	if in.left == 0 {
		in.finish()
	}
	return in, nil
}

// receivable returns the reason why a version cannot be received, nil when it can.
func (s *Store) receivable(v Version) error {
	o := s.table[v.ID]
	switch {
	case o == nil:
		return nil
	case o.lost == nil || o.users > 0 || o.op != nil:
		return ErrPresent
	case o.version != v:
		return fmt.Errorf("%s is not the version that this node had, %s", v, o.version)
	}
	return nil
}

// memoryFor finds a place for the bytes. The mutex is given up while it does.
func (s *Store) memoryFor(ctx context.Context, in *Incoming, form Form) (seg *segment, err error) {
	size := in.version.Size
	if form == Sent {
		form = Segment
	}
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
			return nil, fmt.Errorf("receive object %s: %w", in.version.ID, err)
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
			return nil, fmt.Errorf("receive object %s: %w", in.version.ID, err)
		}
	}
	w, werr := s.newFile(in.version.ID, in.version.Attempt, "", size)
	if werr != nil {
		return nil, fmt.Errorf("%w: receive object %s of %d bytes: %w: "+makeMore, raysys.ErrStoreFull, in.version.ID, size, unless(err, werr))
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

// abandon gives back the memory that memoryFor found.
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

// memory returns the bytes that are charged to the object, which has no form of them yet.
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
