package objectstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
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
