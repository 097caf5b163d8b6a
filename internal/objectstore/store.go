package objectstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/hostmemory"
)

// ErrPresent is returned for an object that the store has already, or is receiving: Lookup finds it.
var ErrPresent = errors.New("object is here already")

// Store is a node's object store. Make it with Open.
type Store struct {
	config Config
	fs     FS
	dir    *spillDir
	ctx    context.Context // ends with the store
	cancel context.CancelCauseFunc
	serial atomic.Uint64 // of temporary files

	mu    sync.Mutex // guards the rest and every object's state; never held while bytes move or the disk works
	table map[raysys.TaskID]*Object
	// used is the memory of all forms and of warm segments; reserved is promised to callers who are about to use it.
	used, reserved int64
	added          int64     // charged since Pressure was asked last
	collected      time.Time // when Pressure was asked last
	warm           warm
	// The objects that can make room, least recently used first; objects in use are in none.
	copies, redundants, primaries chain
	filed                         chain // objects with a file
	diskUsed                      int64
	freeing                       int // stretches of work under way that give memory back
	spilling                      int
	waiting                       int           // callers that wait for changed
	changed                       chan struct{} // closed and replaced by wake
	trash                         []func()      // called by the next unlock, after it
	closed                        bool
	old                           []*oldDir        // of earlier incarnations, until Sweep
	damaged                       map[string]error // files of earlier incarnations that are of no use, by object id
	idle                          []*spillFile     // files that stay mapped without use; longest ago first
	segments, maxSegments         int              // each takes a descriptor and a mapping
	noSegments                    bool             // memory files were tried, and there are none
	count                         counters

	busy sync.WaitGroup // calls that Close waits for
}

type counters struct {
	spilled, restored, dropped, lost, received uint64
	spilledBytes, receivedBytes                int64
}

// Open makes a store. Where Config.Dir is given it looks there for files of earlier incarnations of the node; see
// Recovered. A directory that cannot be read or made is no error here: the store then holds as much as fits in memory.
func Open(c Config) (*Store, error) {
	if len(c.Cluster) > maxCluster {
		return nil, fmt.Errorf("open object store: the cluster's id has %d bytes; give at most %d", len(c.Cluster), maxCluster)
	}
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Store{
		config: c, fs: c.FS, dir: newSpillDir(&c), table: map[raysys.TaskID]*Object{}, changed: make(chan struct{}),
		warm: warm{limit: c.Warm}, added: c.Budget, maxSegments: segmentLimit(),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if c.Dir != "" {
		s.recover()
	}
	return s, nil
}

// unlock gives the mutex up, and then calls the functions that had to wait for that.
func (s *Store) unlock() {
	trash := s.trash
	s.trash = nil
	s.mu.Unlock()
	for _, f := range trash {
		f()
	}
}

// later leaves f to the next unlock.
func (s *Store) later(f func()) { s.trash = append(s.trash, f) }

// await gives the mutex up until ch is closed.
func (s *Store) await(ctx context.Context, ch chan struct{}) error {
	s.unlock()
	defer s.mu.Lock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// usable reports why a call that is about to work has to stop. The mutex is held.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("object store of node %s: %w", s.config.Node, raysys.ErrClosed)
	}
	return context.Cause(ctx)
}

// enter counts a call that moves bytes, so that Close waits for it. The mutex is held.
func (s *Store) enter(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.busy.Add(1)
	return nil
}

// Lookup returns the object, also one that is still being received; nil when it is not here.
func (s *Store) Lookup(id raysys.TaskID) *Object {
	s.mu.Lock()
	defer s.unlock()
	return s.table[id]
}

// Take is Lookup of an object that has its bytes, or is receiving them. It is pinned: the caller calls Unpin. Between
// Lookup and Pin a copy can be dropped for room.
func (s *Store) Take(id raysys.TaskID) *Object {
	s.mu.Lock()
	defer s.unlock()
	o := s.table[id]
	if o == nil || o.lost != nil {
		return nil
	}
	o.pins++
	o.settle()
	return o
}

// Add puts a live value into the store, as a primary. It waits while others are moved out to make room, and when there
// is none the value itself goes to disk. It returns raysys.ErrStoreFull when there is no room for it there either.
func (s *Store) Add(ctx context.Context, id raysys.TaskID, attempt uint32, v Value) (*Object, error) {
	size := v.Size()
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("add object %s: %w", id, err)
	}
	defer s.busy.Done()
	if err := s.vacant(id); err != nil {
		return nil, fmt.Errorf("add object %s: %w", id, err)
	}
	err := s.makeRoom(ctx, size)
	if err != nil && !errors.Is(err, errNoRoom) {
		return nil, fmt.Errorf("add object %s: %w", id, err)
	}
	if err == nil {
		s.reserved -= size
	}
	if verr := s.vacant(id); verr != nil { // another goroutine was faster
		s.wake()
		return nil, fmt.Errorf("add object %s: %w", id, verr)
	}
	why := "put"
	if r, ok := v.(Reason); ok {
		why = r.Why()
	}
	o := s.enlist(Version{ID: id, Attempt: attempt, Nonce: newNonce()}, why)
	o.primary, o.value, o.live = true, v, size
	o.settle()
	if err == nil {
		return o, nil
	}
	if serr := s.spill(ctx, o); serr != nil && !errors.Is(serr, errInUse) {
		o.released = true
		o.unlist()
		o.settle()
		if errors.Is(serr, raysys.ErrEncode) || context.Cause(ctx) != nil {
			return nil, fmt.Errorf("add object %s: %w", id, serr)
		}
		return nil, fmt.Errorf("%w: add object %s of %d bytes: %w; and on disk: %w: "+makeMore, raysys.ErrStoreFull, id, size, err, serr)
	}
	return o, nil
}

// makeMore is the advice in the error of a full store.
const makeMore = "release references, or give the store more memory, more disk or another spill directory"

// vacant reports an object that has the id already.
func (s *Store) vacant(id raysys.TaskID) error {
	if id.IsZero() {
		return fmt.Errorf("an object needs an id: %w", raysys.ErrInvalidRef)
	}
	if s.table[id] != nil {
		return ErrPresent
	}
	return nil
}

func (s *Store) enlist(v Version, why string) *Object {
	o := &Object{store: s, id: v.ID, version: v, since: s.config.Now(), why: why, listed: true}
	o.room.object, o.disk.object = o, o
	s.table[v.ID] = o
	return o
}

// Close ends the store: its waiters get raysys.ErrClosed, and Close waits for work that moves bytes. Mappings that
// are open stay valid until their own Close. Spill files of primaries stay where Config.Dir was given, for the next
// incarnation.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.unlock()
		s.busy.Wait()
		return nil
	}
	s.closed = true
	closed := fmt.Errorf("object store of node %s: %w", s.config.Node, raysys.ErrClosed)
	s.cancel(closed)
	var coming []*Incoming
	for _, o := range s.table {
		if o.in != nil {
			coming = append(coming, o.in)
		}
	}
	s.wake()
	s.unlock()
	for _, in := range coming {
		in.Abort(closed)
	}
	s.busy.Wait()

	s.mu.Lock()
	for _, o := range s.table {
		if o.file != nil && o.primary && !s.dir.temp {
			s.unmap(o.file)
			o.file = nil // the file stays
			o.disk.remove()
		}
		o.released = true
		o.unlist()
		o.settle()
	}
	for len(s.warm.idle) > 0 {
		seg := s.warm.remove(0)
		s.charge(-int64(len(seg.mem)))
		s.destroy(seg)
	}
	old := s.old
	s.old = nil
	s.unlock()
	for _, d := range old {
		d.lock.Close()
	}
	return s.dir.close()
}

// Config has the limits and places of a store. The zero value is a store for one process with a temporary spill
// directory.
type Config struct {
	// Budget is the memory that objects may take, in bytes; 0 is 30 % of AvailableMemory. The rest is for the values
	// that the program itself holds while it works on objects.
	Budget int64
	// Warm bounds the memory of segments kept mapped for the next object, in bytes, within Budget; 0 is a quarter of
	// it, less than 0 keeps none. First touch of cold memory is slower than a fast network.
	Warm int64
	// Dir is where spill files go, below it one directory per incarnation of the node. "" is a directory below
	// os.TempDir, made when something is spilled first and removed by Close.
	Dir string
	// Disk bounds the spill files, in bytes; 0 is all free space of the file system, less a reserve of 1 GiB or a
	// twentieth of it.
	Disk int64
	// Cluster, Node and Incarnation are the node's; spill files of another cluster or node are never read.
	Cluster     string
	Node        raysys.NodeID
	Incarnation uint64
	// FS stands in for the file system; nil is the real one.
	FS FS
	// Pressure, unless nil, is called before primaries are spilled: the program runs a collection, which releases
	// references that are unreachable (rule C25). It may block, but not on room in this store. It is called again
	// when a quarter of the budget was added, and, at most once a second, before a call fails because there is no
	// room.
	Pressure func()
	// Hooks are called for events. Nil functions are valid.
	Hooks Hooks
	// Now is the clock of Info.Since and of Pressure; nil is time.Now.
	Now func() time.Time
}

// Hooks are called outside the store's lock, and must not block for long.
type Hooks struct {
	// Dropped: a copy went to make room, so that this node is no location of it any more.
	Dropped func(Version)
	// Lost: the last form of an object is gone.
	Lost func(raysys.TaskID, error)
	// Trouble: something failed that the store works around, such as a spill directory that cannot be written.
	Trouble func(what string, err error)
}

// AvailableMemory is the memory that this process may have, in bytes: the least limit of its cgroups, or the machine's.
func AvailableMemory() int64 { return hostmemory.Read().Limit }

// DefaultBudget is the Budget where none is given.
func DefaultBudget() int64 { return AvailableMemory() / 10 * 3 }

func (c *Config) fill() error {
	if c.Budget < 0 || c.Disk < 0 {
		return fmt.Errorf("open object store: a budget of %d bytes of memory and %d of disk: give sizes above 0, or 0 for the default", c.Budget, c.Disk)
	}
	if c.Budget == 0 {
		c.Budget = DefaultBudget()
	}
	switch {
	case c.Warm < 0:
		c.Warm = 0
	case c.Warm == 0:
		c.Warm = c.Budget / 4
	}
	c.Warm = min(c.Warm, c.Budget)
	if c.FS == nil {
		c.FS = disk{}
	}
	if c.Node == "" {
		c.Node = "node"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Stats are a store's figures. Sizes are in bytes.
type Stats struct {
	Objects   int
	Budget    int64
	Used      int64 // memory of all forms and of warm segments
	Reserved  int64 // promised to callers who are about to use it
	Warm      int64 // memory of segments that wait for an object, part of Used
	Disk      int64 // of spill files, with those that are being written
	Spilled   uint64
	Restored  uint64
	Dropped   uint64 // copies that went to make room
	Lost      uint64 // spill files that were gone or damaged
	Received  uint64
	Incoming  int
	OnlyFiles int // objects with no form in memory

	SpilledBytes  int64 // of objects that were written to files
	ReceivedBytes int64 // of objects that came from elsewhere
}

// Stats returns the figures of this moment.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.unlock()
	st := Stats{
		Objects: len(s.table), Budget: s.config.Budget, Used: s.used, Reserved: s.reserved, Warm: s.warm.bytes, Disk: s.diskUsed,
		Spilled: s.count.spilled, Restored: s.count.restored, Dropped: s.count.dropped, Lost: s.count.lost, Received: s.count.received,
		SpilledBytes: s.count.spilledBytes, ReceivedBytes: s.count.receivedBytes,
	}
	for _, o := range s.table {
		if o.in != nil {
			st.Incoming++
		}
		if o.file != nil && o.charged == 0 {
			st.OnlyFiles++
		}
	}
	return st
}

// Info describes one object, for people.
type Info struct {
	ID      raysys.TaskID
	Attempt uint32
	Size    int64 // bytes of the encoding; of the live value while there is none
	Forms   []string
	Memory  int64 // charged to the budget
	Primary bool
	Pins    int
	Users   int // mappings, chunks being sent and buffers being filled
	Since   time.Time
	Why     string // how the object came here: put, or as the value says (Reason), received, attached, recovered
	Lost    error
}

// List describes all objects, the largest first.
func (s *Store) List() []Info {
	s.mu.Lock()
	list := make([]Info, 0, len(s.table))
	for _, o := range s.table {
		list = append(list, o.info())
	}
	s.unlock()
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.ID.Hi, b.ID.Hi), cmp.Compare(a.ID.Lo, b.ID.Lo))
	})
	return list
}

// unmap ends an unused mapping of a file, if there is one. The mutex is held.
func (s *Store) unmap(file *spillFile) {
	if m := file.mapping; m != nil && m.users == 0 {
		s.idle = slices.DeleteFunc(s.idle, func(f *spillFile) bool { return f == file })
		file.mapping = nil
		s.later(m.destroy)
	}
}

// openFile opens a spill file, or shares a handle that is open: the chunks of an object are asked for one after the
// other. The mutex is held, but for the opening.
func (s *Store) openFile(f *spillFile) (*handle, error) {
	if f.open != nil {
		f.open.users++
		return f.open, nil
	}
	s.unlock()
	file, err := s.fs.Open(f.name)
	if err == nil {
		var length int64
		if length, err = file.Size(); err == nil && length != f.length {
			err = fmt.Errorf("%w: %d bytes long, not %d", errDamaged, length, f.length)
		}
		if err != nil {
			file.Close()
		}
	}
	s.mu.Lock()
	if err != nil {
		return nil, err
	}
	h := &handle{file: file, users: 1}
	if f.open == nil {
		f.open = h
	}
	return h, nil
}

// closeFile ends one use of a handle. The mutex is held.
func (s *Store) closeFile(f *spillFile, h *handle) {
	if h.users--; h.users > 0 {
		return
	}
	if f.open == h {
		f.open = nil
	}
	s.later(func() { h.file.Close() })
}

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

// Attach maps the bytes that another process of this host shares, read-only, as a copy. It checks that the memory is
// the one that was announced, that it can never shrink, and that its last chunk has the announced checksum. Any doubt
// is an error that matches ErrNotShareable: pull the object instead.
func (s *Store) Attach(ctx context.Context, at Shared, v Version) (*Object, error) {
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("attach object: %w", err)
	}
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("attach object %s: %w", v.ID, err)
	}
	defer s.busy.Done()
	if err := s.receivable(v); err != nil {
		return nil, fmt.Errorf("attach object %s: %w", v.ID, err)
	}
	s.unlock()
	seg, err := attachSegment(at, v)
	s.mu.Lock()
	if err != nil {
		return nil, fmt.Errorf("%w: attach object %s: %w", ErrNotShareable, v.ID, err)
	}
	if err := errors.Join(s.usable(ctx), s.receivable(v)); err != nil {
		s.destroy(seg)
		return nil, fmt.Errorf("attach object %s: %w", v.ID, err)
	}
	o := s.table[v.ID]
	if o == nil {
		o = s.enlist(v, "attached")
	}
	o.measure(v.Size)
	if !o.sums.noteAll(at.Sums) {
		s.destroy(seg)
		return nil, fmt.Errorf("%w: attach object %s: its sums are others than those that it had here", ErrNotShareable, v.ID)
	}
	o.dropSegment()
	o.lost, o.seg = nil, seg
	o.settle()
	return o, nil
}

// spill writes o to a file and drops its memory. The store's mutex is held, but for the work; o is not in use. On
// success or errInUse o has its file.
func (s *Store) spill(ctx context.Context, o *Object) error {
	o.op = make(chan struct{}) // it is not locked: o was in a chain, or is new
	o.room.remove()
	s.spilling++
	s.freeing++
	err := s.writeFile(ctx, o, "")
	s.spilling--
	s.freed()
	if err != nil {
		o.end()
		if h := s.config.Hooks.Trouble; h != nil && ctx.Err() == nil {
			s.later(func() { h("spill", err) })
		}
		return err
	}
	s.count.spilled++
	s.count.spilledBytes += o.version.Size
	before := o.charged
	if o.users == 0 && o.pins == 0 && s.forget(o) && o.users == 0 && o.pins == 0 {
		o.encoding, o.heap = nil, nil
		o.dropSegment()
	}
	o.end()
	if before > 0 && o.charged >= before {
		return errInUse
	}
	return nil
}

// writeFile gives o, which is in its slot, a file with the label. Where o has a file already, the new one is a copy of
// it and takes its place.
func (s *Store) writeFile(ctx context.Context, o *Object, label string) error {
	pieces, value, live, known, before := o.parts(), o.value, o.live, o.sums.complete(), o.file
	s.unlock()
	var size int64
	var first []uint32
	var source source
	var err error
	if pieces == nil && value == nil && before != nil {
		size, source = o.version.Size, o.copyOf(ctx, before)
	} else {
		size, first, source, err = s.sourceOf(o, pieces, value, live, known)
	}
	s.mu.Lock()
	if err == nil && !o.measure(size) {
		err = changed(o.id)
	}
	if err != nil {
		return err
	}
	w, err := s.newFile(o.id, o.version.Attempt, label, size)
	if err != nil {
		return err
	}
	s.unlock()
	sums, err := w.fill(ctx, o.id, source)
	if err == nil {
		s.mu.Lock()
		if first != nil && !slices.Equal(first, sums) || !o.sums.noteAll(sums) {
			err = changed(o.id)
		}
		s.unlock()
	}
	var f *spillFile
	if err == nil {
		f, err = w.commit(o.version, sums)
	} else {
		w.discard()
	}
	s.mu.Lock()
	if err != nil {
		s.diskUsed -= w.length
		return err
	}
	o.file = f
	if before != nil {
		s.discarded(before)
	}
	return nil
}

// newFile reserves disk for an object and begins its file. The mutex is given up while the disk works.
func (s *Store) newFile(id raysys.TaskID, attempt uint32, label string, size int64) (*fileWriter, error) {
	n := bodyOffset(s.config.Cluster, label, size) + size
	if err := s.makeDisk(n); err != nil {
		return nil, err
	}
	s.unlock()
	w, err := s.create(id, attempt, label, size)
	s.mu.Lock()
	if err != nil {
		s.diskUsed -= n
		return nil, err
	}
	return w, nil
}

// makeDisk reserves n bytes of disk: copies go first, then files beside memory that holds the same, then the
// objects that a collection frees. The mutex is given up during a collection.
func (s *Store) makeDisk(n int64) error {
	limit := s.config.Disk
	if limit == 0 {
		var err error
		if limit, err = s.diskLimit(); err != nil {
			return err
		}
	}
	if n > limit {
		return fmt.Errorf("disk budget: %d bytes are more than the whole of %d", n, limit)
	}
	for s.diskUsed+n > limit {
		o := s.filed.first(func(o *Object) bool { return !o.primary && o.idle() })
		if o == nil {
			o = s.filed.first(func(o *Object) bool { return o.idle() && o.charged > 0 && o.file.label == "" })
		}
		if o == nil && s.pressLast() {
			continue
		}
		if o == nil {
			return fmt.Errorf("disk budget: %d of %d bytes are used and %d are needed: free some, or give more", s.diskUsed, limit, n)
		}
		if o.charged == 0 {
			s.drop(o)
			continue
		}
		o.dropFile()
		o.settle()
	}
	s.diskUsed += n
	return nil
}

// diskLimit is the disk space that all spill files may take, given the space that is free now. A directory that
// vanished is made again. The mutex is given up while the disk works.
func (s *Store) diskLimit() (int64, error) {
	s.unlock()
	space := func(again bool) (free, all int64, err error) {
		dir, err := s.dir.path(again)
		if err == nil {
			free, all, err = s.fs.Space(dir)
		}
		return free, all, err
	}
	free, all, err := space(false)
	if errors.Is(err, fs.ErrNotExist) {
		free, all, err = space(true)
	}
	s.mu.Lock()
	if err != nil {
		return 0, err
	}
	left := max(0, free-min(reserve, all/20))
	if s.diskUsed > math.MaxInt64-left {
		return math.MaxInt64, nil
	}
	return s.diskUsed + left, nil
}

// discarded takes a file that nothing needs any more. A mapping keeps the bytes until it ends.
func (s *Store) discarded(f *spillFile) {
	s.diskUsed -= f.length
	s.unmap(f)
	s.later(func() { _ = s.fs.Remove(f.name) })
}

// create begins a file for an object of size bytes, with the disk for it reserved. A directory that vanished is made
// again.
func (s *Store) create(id raysys.TaskID, attempt uint32, label string, size int64) (*fileWriter, error) {
	w := &fileWriter{fs: s.fs, cluster: s.config.Cluster, label: label, body: bodyOffset(s.config.Cluster, label, size)}
	w.length = w.body + size
	for again := false; ; again = true {
		dir, err := s.dir.path(again)
		if err != nil {
			return nil, err
		}
		// The serial keeps a file apart from an earlier one of the same object that is about to be removed.
		name := fmt.Sprintf("%s-%d-%d", id, attempt, s.serial.Add(1))
		w.final, w.tmp = filepath.Join(dir, name+fileSuffix), filepath.Join(dir, name+tmpSuffix)
		w.file, err = s.fs.Create(w.tmp)
		if err == nil {
			break
		}
		if again || !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("create spill file: %w", err)
		}
	}
	if err := w.file.Reserve(w.length); err != nil {
		w.discard()
		return nil, fmt.Errorf("reserve %d bytes for spill file: %w", w.length, err)
	}
	return w, nil
}

// sourceOf returns a source of the bytes to write for an object, and their number. A value that is streamed is read
// twice: its length comes before the first byte is written, and with it the sums that the second reading must have too,
// unless they are known. It is called without the mutex.
func (s *Store) sourceOf(o *Object, pieces [][]byte, v Value, live int64, known bool) (size int64, first []uint32, src source, err error) {
	if stream, ok := v.(Streamer); ok && pieces == nil && live > s.config.Budget/streamShare {
		src := guarded(o.id, stream)
		if known {
			return o.version.Size, nil, src, nil
		}
		var all running
		if err := src(func(b []byte) error { all.add(b); return nil }); err != nil {
			return 0, nil, nil, err
		}
		return all.size, all.all(), src, nil
	}
	if pieces == nil {
		if pieces, err = encode(o.id, v); err != nil {
			return 0, nil, nil, err
		}
	}
	return total(pieces), nil, func(emit func([]byte) error) error {
		for _, p := range pieces {
			if err := emit(p); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
