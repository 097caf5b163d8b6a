package objectstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

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
