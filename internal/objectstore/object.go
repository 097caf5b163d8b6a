package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/raysys/raysys"
)

// Value is a live Go value whose bytes are made only when they must be.
type Value interface {
	// Size is the memory it takes, in bytes.
	Size() int64
	// Pieces is its encoding, the same bytes every time. Pieces at odd positions are parts of the value, those at
	// even positions memory of their own (codec.Plan.Pieces). They must not be written to.
	Pieces() ([][]byte, error)
	// Evict asks it to be forgotten: its bytes are safe. False: it cannot be just now. It is called without the
	// store's mutex, but while other readers of the object wait for its end: it must not call the store, nor wait for
	// a goroutine that does. It may be called before Add returned.
	Evict() bool
}

// Reason is a Value that names its origin, for Info.Why.
type Reason interface {
	// Why is called once, with the store's lock held.
	Why() string
}

// Object is one object in a node's store. Its methods may be called from any goroutine.
type Object struct {
	store *Store
	id    raysys.TaskID
	since time.Time

	// The fields below are guarded by the store's mutex.

	version  Version // its Size counts once there are sums, and then stays
	sums     *sums   // nil until the length of the encoding is known
	value    Value
	live     int64 // bytes of value
	encoding *encoding
	heap     *heap
	seg      *segment
	file     *spillFile
	in       *Incoming // while it is being received
	lost     error     // why there is no form any more

	primary  bool
	released bool
	listed   bool // in the store's table
	pins     int
	users    int           // mappings, chunks and lent buffers: forms stay as they are
	op       chan struct{} // closed when the work on it that moves bytes is over; nil when there is none
	charged  int64         // bytes that the budget was charged
	why      string        // how the object came here

	room link // in the chain of the objects that can make room
	disk link // in the chain of those with a file
}

// encoding is the bytes of a live value, kept while they are of use.
type encoding struct {
	pieces [][]byte
	own    int64 // bytes that are not the value's
}

// heap is one buffer of the collector's.
type heap struct{ bytes []byte }

// ID returns the object's id.
func (o *Object) ID() raysys.TaskID { return o.id }

// Pin keeps the object's memory where it is until Unpin: it is not spilled, dropped or thinned.
func (o *Object) Pin() {
	o.store.mu.Lock()
	o.pins++
	o.settle()
	o.store.unlock()
}

// Unpin ends one Pin.
func (o *Object) Unpin() {
	o.store.mu.Lock()
	defer o.store.unlock()
	if o.pins == 0 {
		panic("object: Unpin without Pin of " + o.id.String())
	}
	o.pins--
	o.settle()
}

// SetPrimary says whether this node must keep the object (a primary, or one of its replicas) or may drop it for room.
// It reports whether the object is in the store still: an object that was released or dropped before cannot be kept.
func (o *Object) SetPrimary(primary bool) (here bool) {
	o.store.mu.Lock()
	defer o.store.unlock()
	o.primary = primary
	o.settle()
	return o.listed
}

// Release ends this node's need of the object: it is not found any more, and is freed when its last use ends. Release
// again does nothing.
func (o *Object) Release() {
	o.store.mu.Lock()
	o.released = true
	o.unlist()
	o.settle()
	o.store.unlock()
}

// Revive hands the object a live value again, made of its bytes. It never fails: the value is in memory already, and
// counts from now on.
func (o *Object) Revive(v Value) {
	size := v.Size()
	o.store.mu.Lock()
	defer o.store.unlock()
	if !o.listed || o.store.closed { // released, or a copy that was dropped: the value is its holder's alone
		return
	}
	if o.lost != nil {
		if o.users > 0 || o.op != nil {
			return // its other forms are still in use, and must not be read as its bytes
		}
		o.strip()
		o.lost = nil
	}
	o.value, o.live = v, size
	o.settle()
}

// Lost returns why the object is gone, nil while it is not.
func (o *Object) Lost() error {
	o.store.mu.Lock()
	defer o.store.unlock()
	return o.lost
}

// settle brings the books up to date after any change of o: its charge, its place among the objects that can make room,
// and its end. The store's mutex is held.
func (o *Object) settle() {
	s := o.store
	if o.users == 0 && o.op == nil && o.pins == 0 && (o.released || o.lost != nil) {
		o.strip()
		if o.file != nil && (o.released || o.lost != nil) {
			o.dropFile()
		}
	}
	now := o.memory()
	s.charge(now - o.charged)
	o.charged = now
	o.place()
}

// memory returns the bytes that o's forms take. A foreign segment is charged to the process it belongs to, and the
// mapping of a file is not charged: the kernel takes those pages back as it likes.
func (o *Object) memory() (n int64) {
	if o.value != nil {
		n += o.live
	}
	if o.encoding != nil {
		n += o.encoding.own
	}
	if o.heap != nil {
		n += int64(len(o.heap.bytes))
	}
	if o.seg != nil && !o.seg.foreign {
		n += int64(len(o.seg.mem))
	}
	if o.in != nil {
		n += o.in.memory()
	}
	return n
}

// strip drops every form in memory.
func (o *Object) strip() {
	o.value, o.encoding, o.heap = nil, nil, nil
	o.dropSegment()
}

func (o *Object) dropSegment() {
	if o.seg != nil {
		o.store.retire(o.seg)
		o.seg = nil
	}
}

func (o *Object) dropFile() {
	f := o.file
	o.file = nil
	o.disk.remove()
	o.store.discarded(f)
}

// unlist takes o out of the table.
func (o *Object) unlist() {
	if o.listed {
		o.listed = false
		if o.store.table[o.id] == o {
			delete(o.store.table, o.id)
		}
	}
}

// awaitDone waits until done is closed, which ends work on o or its arrival. The mutex is given up meanwhile.
func awaitDone(ctx context.Context, o *Object, done chan struct{}) error {
	if err := o.store.await(ctx, done); err != nil {
		return fmt.Errorf("wait for object %s: %w", o.id, err)
	}
	return nil
}

// begin takes the one slot for work on o that moves bytes; it waits for its turn. The store's mutex is held, but for
// the wait.
func (o *Object) begin(ctx context.Context) error {
	for o.op != nil {
		if err := awaitDone(ctx, o, o.op); err != nil {
			return err
		}
	}
	o.op = make(chan struct{})
	o.room.remove()
	return nil
}

// end gives the slot back.
func (o *Object) end() {
	close(o.op)
	o.op = nil
	o.settle()
}

// use keeps o's forms as they are until unuse.
func (o *Object) use() {
	o.users++
	o.room.remove()
}

func (o *Object) unuse() {
	o.store.mu.Lock()
	o.users--
	o.settle()
	o.store.unlock()
}

// gone returns the error for an object that has no form; nil when it has one. The store's mutex is held.
func (o *Object) gone() error {
	switch {
	case o.lost != nil:
		return o.lost
	case o.store.closed:
		return fmt.Errorf("object %s: %w", o.id, raysys.ErrClosed)
	case o.value == nil && o.heap == nil && o.seg == nil && o.file == nil && o.in == nil:
		if o.released {
			return fmt.Errorf("object %s: %w", o.id, raysys.ErrReleased)
		}
		return fmt.Errorf("%w: this node dropped its copy of object %s to make room: fetch it again", raysys.ErrObjectLost, o.id)
	}
	return nil
}

// errOtherForm says that a file was given up, and that o has its bytes in another form: look again.
var errOtherForm = errors.New("another form serves")

// lose notes that a file is gone, and with it the object where it was the last form. The store's mutex is held; the
// hook runs after it.
func (o *Object) lose(cause error) error {
	if o.value != nil || o.heap != nil || o.seg != nil {
		return errOtherForm
	}
	err := fmt.Errorf("%w: object %s: %w", raysys.ErrObjectLost, o.id, cause)
	o.lost = err
	if h := o.store.config.Hooks.Lost; h != nil {
		o.store.later(func() { h(o.id, err) })
	}
	return err
}

// Chunk lends chunk i, to be sent. Of an object that is still being received it waits for the chunk.
func (o *Object) Chunk(ctx context.Context, i int) (Chunk, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return Chunk{}, fmt.Errorf("chunk %d of object %s: %w", i, o.id, err)
	}
	defer s.busy.Done()
	for {
		if err := o.gone(); err != nil {
			return Chunk{}, err
		}
		if o.sums != nil && (i < 0 || i >= len(o.sums.crc)) {
			return Chunk{}, fmt.Errorf("object %s has %d chunks: there is no chunk %d", o.id, len(o.sums.crc), i)
		}
		switch {
		case o.in != nil:
			c, ok, err := o.in.lend(ctx, i)
			if ok || err != nil {
				return c, err
			}
		case o.parts() != nil:
			at, n := o.version.Section(i)
			c := Chunk{Pieces: section(o.parts(), at, n), Size: n, sum: o.sums.crc[i]}
			if !o.sums.known[i] {
				c.of, c.i = o, i
			}
			return o.lend(c), nil
		case o.file != nil:
			if c, err := o.fileChunk(ctx, o.file, o.file.body, i); err != errOtherForm {
				return c, err
			}
		default:
			if err := o.encoded(ctx); err != nil {
				return Chunk{}, err
			}
		}
	}
}

// lend counts the use of a chunk in memory.
func (o *Object) lend(c Chunk) Chunk {
	o.touch()
	o.use()
	c.back = &lent{give: o.unuse}
	return c
}

// fileChunk lends a section of a file; where the file system has no real files, its verified bytes.
func (o *Object) fileChunk(ctx context.Context, f *spillFile, body int64, i int) (Chunk, error) {
	s := o.store
	o.use()
	h, err := s.openFile(f)
	if err != nil {
		o.users--
		defer o.settle()
		return Chunk{}, o.broken(ctx, f, err)
	}
	o.touch()
	at, n := o.version.Section(i)
	c := Chunk{File: h.file.OS(), Offset: body + at, Size: n, sum: o.sums.crc[i]}
	c.back = &lent{give: func() {
		s.mu.Lock()
		s.closeFile(f, h)
		o.users--
		o.settle()
		s.unlock()
	}}
	if c.File != nil {
		return c, nil
	}
	s.unlock()
	buf := make([]byte, n)
	if err = readFull(h.file, buf, body+at); err == nil {
		err = o.version.verify(i, c.sum, buf)
	}
	if err != nil {
		c.Release()
	}
	s.mu.Lock()
	if err != nil {
		return Chunk{}, o.broken(ctx, f, err)
	}
	c.Pieces, c.Offset = [][]byte{buf}, 0
	return c, nil
}

// Map makes the object's bytes readable in one stretch without copying them where that can be: a segment, a mapped spill
// file (which is verified first), or one buffer of the collector's. Of an object that is still being received it waits
// for the last chunk.
func (o *Object) Map(ctx context.Context) (*Mapping, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("map object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	for {
		err := o.gone()
		switch {
		case err != nil:
		case o.in != nil:
			err = awaitDone(ctx, o, o.in.done)
		case o.seg != nil:
			o.touch()
			o.use()
			return newMapping(o.seg.mem[:o.version.Size:o.version.Size], o.unuse), nil
		case o.heap != nil:
			o.touch()
			o.use()
			return newMapping(o.heap.bytes, o.unuse), nil
		case o.file != nil && o.file.mapping != nil:
			return o.shareMapping(o.file), nil
		case o.file != nil && o.file.plain:
			return o.mapBuffer(ctx)
		case o.file != nil:
			err = o.mapFile(ctx)
		default:
			return o.mapBuffer(ctx)
		}
		if err != nil && err != errOtherForm {
			return nil, err
		}
	}
}

// mapBuffer serves one buffer of the collector's as a mapping.
func (o *Object) mapBuffer(ctx context.Context) (*Mapping, error) {
	b, err := o.bytes(ctx)
	if err != nil {
		return nil, err
	}
	return newMapping(b, func() {}), nil
}

// mapFile verifies the spill file and maps it. Where that cannot be done it marks the file as plain. The mutex is given
// up meanwhile.
func (o *Object) mapFile(ctx context.Context) error {
	s := o.store
	if o.op != nil {
		return awaitDone(ctx, o, o.op)
	}
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	file := o.file
	h, err := s.openFile(file)
	if err != nil {
		return o.broken(ctx, file, err)
	}
	s.unlock()
	var m *fileMapping
	if err = o.verifyAll(ctx, h.file, file.body); err == nil {
		m, err = mapBody(h.file, file.body, o.version.Size)
	}
	s.mu.Lock()
	s.closeFile(file, h)
	switch {
	case errors.Is(err, errNotMappable):
		file.plain = true
		return nil
	case err != nil:
		return o.broken(ctx, file, err)
	}
	file.mapping = m
	s.idle = append(s.idle, file) // until the caller's loop comes to it
	return nil
}

// shareMapping lends a file's mapping. The mutex is held.
func (o *Object) shareMapping(file *spillFile) *Mapping {
	s, m := o.store, file.mapping
	o.touch()
	o.use()
	if m.users++; m.users == 1 {
		s.idle = slices.DeleteFunc(s.idle, func(f *spillFile) bool { return f == file })
	}
	return newMapping(m.body, func() {
		s.mu.Lock()
		if m.users--; m.users == 0 {
			s.idle = append(s.idle, file)
			if o.file != file || s.closed { // the file was given up meanwhile
				s.unmap(file)
			} else if len(s.idle) > maxIdle {
				s.unmap(s.idle[0])
			}
		}
		o.users--
		o.settle()
		s.unlock()
	})
}

// broken handles an error with a spill file. A file that is gone or damaged is given up, and with it the object where
// the file was its last form. The mutex is held.
func (o *Object) broken(ctx context.Context, f *spillFile, cause error) error {
	if context.Cause(ctx) != nil {
		return fmt.Errorf("read object %s: %w", o.id, cause)
	}
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(cause, passing) {
			return fmt.Errorf("%w: read object %s: %w", raysys.ErrOverloaded, o.id, cause)
		}
	}
	if errors.Is(cause, fs.ErrNotExist) {
		cause = fmt.Errorf("its spill file was removed by another program: %w", cause)
	}
	cause = fmt.Errorf("spill file %s: %w", f.name, cause)
	if o.file == f {
		o.dropFile()
		o.store.count.lost++
		if h := o.store.config.Hooks.Trouble; h != nil {
			o.store.later(func() { h("read spill file", cause) })
		}
		return o.lose(cause)
	}
	return fmt.Errorf("%w: object %s: %w", raysys.ErrObjectLost, o.id, cause)
}

// Persist returns when the object's bytes are in a file of this label, and file and directory are synced: they outlive
// the process and a crash of the host. A later incarnation of the node finds the file by Recovered. It is deleted by
// Release and not to make room. Persist again with the same label does nothing.
//
// It returns raysys.ErrNoStore where Config.Dir is not given, and raysys.ErrStoreFull where the disk does not take the
// file.
func (o *Object) Persist(ctx context.Context, label string) error {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("persist object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	switch {
	case s.dir.temp:
		return fmt.Errorf("%w: persist object %s: the node has no directory that outlives its process", raysys.ErrNoStore, o.id)
	case label == "" || len(label) > maxLabel:
		return fmt.Errorf("%w: persist object %s: its label has %d bytes: give 1 to %d", raysys.ErrTooLarge, o.id, len(label), maxLabel)
	}
	for {
		if err := o.gone(); err != nil {
			return err
		}
		switch {
		case o.in != nil:
			if err := awaitDone(ctx, o, o.in.done); err != nil {
				return err
			}
		case o.op != nil:
			if err := awaitDone(ctx, o, o.op); err != nil {
				return err
			}
		case o.file != nil && o.file.label == label:
			return nil
		default:
			if err := o.persist(ctx, label); err != errOtherForm {
				return err
			}
		}
	}
}

// persist writes the file. The mutex is given up meanwhile.
func (o *Object) persist(ctx context.Context, label string) error {
	s := o.store
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	before := o.file
	err := s.writeFile(ctx, o, label)
	var damaged *damagedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damaged):
		return o.broken(ctx, before, damaged.cause)
	case errors.Is(err, raysys.ErrEncode), errors.Is(err, raysys.ErrReleased), context.Cause(ctx) != nil:
		return fmt.Errorf("persist object %s: %w", o.id, err)
	}
	return fmt.Errorf("%w: persist object %s of %d bytes: %w: "+makeMore, raysys.ErrStoreFull, o.id, o.version.Size, err)
}

// copyOf emits the bytes of o's file, each chunk verified. o is in its slot.
func (o *Object) copyOf(ctx context.Context, file *spillFile) source {
	return func(emit func([]byte) error) error {
		s := o.store
		s.mu.Lock()
		h, err := s.openFile(file)
		s.unlock()
		if err != nil {
			return &damagedError{err}
		}
		defer func() {
			s.mu.Lock()
			s.closeFile(file, h)
			s.unlock()
		}()
		buf := make([]byte, min(ChunkSize, o.version.Size))
		for i := range o.sums.crc {
			_, n := o.version.Section(i)
			if err := o.readChunk(ctx, h.file, file.body, i, buf[:n]); err != nil {
				return &damagedError{err}
			}
			if err := emit(buf[:n]); err != nil {
				return err
			}
		}
		return nil
	}
}

// Persisted reports whether the object has a file with a label.
func (o *Object) Persisted() bool {
	o.store.mu.Lock()
	defer o.store.unlock()
	return o.file != nil && o.file.label != ""
}

// place puts o where makeRoom looks for it, or nowhere while it is in use.
func (o *Object) place() {
	s := o.store
	if o.file != nil && !o.released {
		if o.disk.in == nil {
			s.filed.push(&o.disk)
		}
	} else {
		o.disk.remove()
	}
	var c *chain
	switch {
	case o.users > 0 || o.pins > 0 || o.op != nil || o.in != nil || o.charged == 0:
	case !o.primary:
		c = &s.copies
	case o.redundant():
		c = &s.redundants
	default:
		c = &s.primaries
	}
	if c == nil {
		o.room.remove()
	} else if o.room.in != c {
		c.push(&o.room)
	}
}

// touch makes o the most recently used.
func (o *Object) touch() {
	if c := o.room.in; c != nil {
		c.push(&o.room)
	}
	if c := o.disk.in; c != nil {
		c.push(&o.disk)
	}
}

// redundant reports whether memory of o can go without a byte being written.
func (o *Object) redundant() bool {
	switch {
	case o.file != nil:
		return o.value != nil || o.encoding != nil || o.heap != nil || o.seg != nil
	case o.value != nil:
		return o.encoding != nil || o.heap != nil || o.seg != nil
	default:
		return o.heap != nil && o.seg != nil
	}
}

// Drop gives up a copy that nothing uses, as makeRoom would. Who wants the object again fetches it again.
func (o *Object) Drop() {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if o.room.in == &s.copies {
		s.drop(o)
	}
}

// Share makes the object's bytes mappable by other processes of this user on this host. Where they are in no segment
// yet they are copied into one and summed, once for all receivers; a segment that was shared never changes any more.
// Without memory files, or without room for the segment, it returns ErrNotShareable.
func (o *Object) Share(ctx context.Context) (Shared, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return Shared{}, fmt.Errorf("share object %s: %w", o.id, err)
	}
	defer s.busy.Done()
	for {
		err := o.gone()
		switch {
		case err != nil:
		case o.in != nil:
			err = awaitDone(ctx, o, o.in.done)
		case o.seg != nil:
			if o.seg.foreign {
				return Shared{}, fmt.Errorf("%w: object %s is mapped from another process: ask that one", ErrNotShareable, o.id)
			}
			o.seg.shared = true
			o.touch()
			at := o.seg.address(int64(len(o.seg.mem)))
			at.Sums = o.sums.crc // all are known, and stay
			return at, nil
		case o.sums != nil && o.version.Size == 0:
			return Shared{}, fmt.Errorf("%w: object %s has no bytes", ErrNotShareable, o.id)
		case s.noSegments:
			return Shared{}, fmt.Errorf("%w: %w", ErrNotShareable, errNoSegments)
		case o.op != nil:
			err = awaitDone(ctx, o, o.op)
		case o.parts() == nil && o.file == nil:
			err = o.encoded(ctx)
		default:
			err = o.segmented(ctx)
		}
		if err != nil && err != errOtherForm {
			return Shared{}, err
		}
	}
}

// segmented copies the object's bytes into a segment, and sums them: a segment may be shared. The mutex is given up
// while bytes move.
func (o *Object) segmented(ctx context.Context) error {
	s := o.store
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	size := o.version.Size
	seg, err := s.segmentFor(ctx, size)
	if err != nil {
		if errors.Is(err, errNoRoom) || errors.Is(err, errNoSegments) {
			return fmt.Errorf("%w: object %s: %w", ErrNotShareable, o.id, err)
		}
		return fmt.Errorf("share object %s: %w", o.id, err)
	}
	s.reserved += int64(len(seg.mem)) // until it is the object's
	pieces, file := o.parts(), o.file
	s.unlock()
	var sums running
	if pieces != nil {
		to := seg.mem[:size]
		for _, p := range pieces {
			for len(p) > 0 {
				n := copy(to[:min(len(to), ChunkSize)], p)
				sums.add(to[:n]) // from the processor's cache
				to, p = to[n:], p[n:]
			}
		}
	} else {
		err = o.restore(ctx, file, seg.mem[:size])
	}
	s.mu.Lock()
	s.reserved -= int64(len(seg.mem))
	if err == nil && pieces != nil && !o.sums.noteAll(sums.all()) {
		err = changed(o.id)
	}
	if err != nil {
		s.destroy(seg)
		s.wake()
		return err
	}
	o.seg = seg
	if o.value != nil {
		o.encoding = nil
	}
	return nil
}

// parts returns o's bytes in memory, nil when there is at most the live value.
func (o *Object) parts() [][]byte {
	switch {
	case o.heap != nil:
		return [][]byte{o.heap.bytes}
	case o.seg != nil:
		return [][]byte{o.seg.mem[:o.version.Size]}
	case o.encoding != nil:
		return o.encoding.pieces
	}
	return nil
}

// idle reports whether o has neither work under way nor uses.
func (o *Object) idle() bool { return o.users == 0 && o.pins == 0 && o.op == nil && o.in == nil }

// Info describes the object.
func (o *Object) Info() Info {
	o.store.mu.Lock()
	defer o.store.unlock()
	return o.info()
}

func (o *Object) info() Info {
	i := Info{
		ID: o.id, Attempt: o.version.Attempt, Size: o.live, Memory: o.charged, Primary: o.primary, Pins: o.pins, Users: o.users,
		Since: o.since, Why: o.why, Lost: o.lost,
	}
	if o.sums != nil {
		i.Size = o.version.Size
	}
	form := func(has bool, name string) {
		if has {
			i.Forms = append(i.Forms, name)
		}
	}
	form(o.value != nil, "value")
	form(o.encoding != nil, "encoding")
	form(o.heap != nil, "heap")
	form(o.seg != nil && !o.seg.foreign, "segment")
	form(o.seg != nil && o.seg.foreign, "foreign")
	form(o.file != nil, "file")
	form(o.in != nil, "incoming")
	return i
}

// measure takes the length of the object's encoding. False: another one is known. The mutex is held.
func (o *Object) measure(size int64) bool {
	if o.sums == nil {
		o.version.Size, o.sums = size, newSums(size)
	}
	return o.version.Size == size
}

// compare computes the sums of a repeated encoding if one is known: the value must still give the chunks that other
// nodes may have. o is in its slot; the mutex is given up meanwhile.
func (o *Object) compare(pieces [][]byte) error {
	if !slices.Contains(o.sums.known, true) {
		return nil
	}
	o.store.unlock()
	var all running
	for _, p := range pieces {
		all.add(p)
	}
	o.store.mu.Lock()
	if !o.sums.noteAll(all.all()) {
		return changed(o.id)
	}
	return nil
}

// damagedError says that a file which was read to be copied has other bytes than those that were written.
type damagedError struct{ cause error }

func (e *damagedError) Error() string { return e.cause.Error() }
func (e *damagedError) Unwrap() error { return e.cause }
