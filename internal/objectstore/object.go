package objectstore

import (
	"context"
	"errors"
	"fmt"
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

// begin takes the one slot for work on o that moves bytes; it waits for its turn. The store's mutex is held, but for
// the wait.
func (o *Object) begin(ctx context.Context) error {
	for o.op != nil {
		if err := o.store.await(ctx, o.op); err != nil {
			return fmt.Errorf("wait for object %s: %w", o.id, err)
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
