package grainengine_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/graindir"
)

type storeKey struct {
	id   graindir.ID
	name string
}

// fakeStore keeps the States of a fakeNet: conditional on the token and the ETag, with faults.
type fakeStore struct {
	net *fakeNet

	mu      sync.Mutex // guards the rest; taken before net.mu
	records map[storeKey]graindir.Record
	seq     uint64

	counters  map[graindir.ID]fakeCounter
	replies   map[graindir.ID]map[raysys.TaskID][]byte
	sides     map[graindir.ID]map[string][]byte // by family and name
	committed int                               // replies, of all grains

	loads    int
	saves    int
	onSave   func(id graindir.ID, name string) fault
	onCommit func(graindir.Commit)
	onLoad   func(id graindir.ID) error
	late     []func() // Saves that take effect later
}

// fault says what becomes of one Save.
type fault uint8

const (
	saveWell    fault = iota
	saveLost          // the outcome is unknown, and it was not stored
	saveStored        // the outcome is unknown, and it was stored
	saveDelayed       // the outcome is unknown, and it arrives again later
	saveRefused       // it was surely not stored
)

func (s *fakeStore) heal() {
	s.mu.Lock()
	s.onSave, s.onLoad = nil, nil
	s.mu.Unlock()
}

// fakeStates is the store as one node sees it.
type fakeStates struct{ node *fakeNode }

func (f fakeStates) Lease() error { return f.node.Suspended() }

func (s *fakeStore) current(id graindir.ID, token graindir.Token) error {
	if now := s.net.placeOf(id).Token; now != token {
		return fmt.Errorf("%w: its token is %v, and now it is %v", raysys.ErrMoved, token, now)
	}
	return nil
}

func (f fakeStates) Load(id graindir.ID, names []string, token graindir.Token, done func([]graindir.Record, error)) {
	s := f.node.net.store
	f.node.net.answer("load", func() { done(s.load(f.node, id, names, token)) })
}

func (s *fakeStore) load(n *fakeNode, id graindir.ID, names []string, token graindir.Token) ([]graindir.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if s.onLoad != nil {
		if err := s.onLoad(id); err != nil {
			return nil, err
		}
	}
	if err := s.current(id, token); err != nil {
		return nil, err
	}
	var rs []graindir.Record
	for _, name := range names {
		rs = append(rs, s.records[storeKey{id, name}])
	}
	return rs, nil
}

func (f fakeStates) Save(id graindir.ID, name string, token graindir.Token, etag graindir.ETag, data []byte, done func(graindir.ETag, error)) {
	s := f.node.net.store
	f.node.net.answer("save", func() { done(s.save(id, name, token, etag, data)) })
}

func (s *fakeStore) save(id graindir.ID, name string, token graindir.Token, etag graindir.ETag, data []byte) (graindir.ETag, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	how := saveWell
	if s.onSave != nil {
		how = s.onSave(id, name)
	}
	unknown := fmt.Errorf("%w: by test", raysys.ErrOutcomeUnknown)
	switch how {
	case saveLost:
		return graindir.ETag{}, unknown
	case saveRefused:
		return graindir.ETag{}, fmt.Errorf("%w: by test", raysys.ErrOverloaded)
	case saveDelayed:
		s.late = append(s.late, func() { _, _ = s.put(id, name, token, etag, data) })
		return graindir.ETag{}, unknown
	}
	tag, err := s.put(id, name, token, etag, data)
	if how == saveStored {
		return graindir.ETag{}, unknown
	}
	return tag, err
}

func (s *fakeStore) put(id graindir.ID, name string, token graindir.Token, etag graindir.ETag, data []byte) (graindir.ETag, error) {
	if err := s.current(id, token); err != nil {
		return graindir.ETag{}, err
	}
	k := storeKey{id, name}
	if s.records[k].ETag != etag {
		return graindir.ETag{}, fmt.Errorf("%w: it is %v", grains.ErrETag, s.records[k].ETag)
	}
	s.seq++
	r := graindir.Record{Data: data, ETag: graindir.ETag{Epoch: 1, Seq: s.seq}, Exists: data != nil}
	s.records[k] = r
	return r.ETag, nil
}

func (f fakeStates) Restore(id graindir.ID, names []string, token graindir.Token, done func(graindir.Restored, error)) {
	s := f.node.net.store
	f.node.net.answer("restore", func() { done(s.restore(f.node, id, names, token)) })
}

func (s *fakeStore) restore(n *fakeNode, id graindir.ID, names []string, token graindir.Token) (r graindir.Restored, err error) {
	if r.States, err = s.load(n, id, names, token); err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[id]
	r.Version, r.Counter = c.version, c.counter
	for call, data := range s.replies[id] {
		r.Replies = append(r.Replies, graindir.StoredReply{Call: call, Data: data})
	}
	for at, data := range s.sides[id] {
		r.Sides = append(r.Sides, graindir.Side{Family: at[0], Name: at[1:], Data: data})
	}
	slices.SortFunc(r.Sides, func(a, b graindir.Side) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Name, b.Name))
	})
	return r, nil
}

// Counter implements graindir.States.
func (f fakeStates) Counter(id graindir.ID, token graindir.Token, done func(graindir.Restored, error)) {
	s := f.node.net.store
	f.node.net.answer("restore", func() {
		r, err := s.restore(f.node, id, nil, token)
		done(graindir.Restored{Version: r.Version, Counter: r.Counter}, err)
	})
}

func (f fakeStates) Commit(id graindir.ID, token graindir.Token, c graindir.Commit, done func(graindir.ETag, error)) {
	s := f.node.net.store
	f.node.net.answer("commit", func() { done(s.commit(id, token, c)) })
}

func (s *fakeStore) commit(id graindir.ID, token graindir.Token, c graindir.Commit) (graindir.ETag, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	how := saveWell
	if s.onSave != nil {
		how = s.onSave(id, "")
	}
	unknown := fmt.Errorf("%w: by test", raysys.ErrOutcomeUnknown)
	switch how {
	case saveLost:
		return graindir.ETag{}, unknown
	case saveRefused:
		return graindir.ETag{}, fmt.Errorf("%w: by test", raysys.ErrUnreachable)
	case saveDelayed:
		s.late = append(s.late, func() { _, _ = s.make(id, token, c) })
		return graindir.ETag{}, unknown
	}
	tag, err := s.make(id, token, c)
	if how == saveStored {
		return graindir.ETag{}, unknown
	}
	return tag, err
}

// make makes a commit.
func (s *fakeStore) make(id graindir.ID, token graindir.Token, c graindir.Commit) (graindir.ETag, error) {
	if err := s.current(id, token); err != nil {
		return graindir.ETag{}, err
	}
	if now := s.counters[id].version; now != c.After {
		return graindir.ETag{}, fmt.Errorf("%w: it is %v", grains.ErrETag, now)
	}
	if s.onCommit != nil {
		s.onCommit(c)
	}
	s.seq++
	tag := graindir.ETag{Epoch: 1, Seq: s.seq}
	s.counters[id] = fakeCounter{tag, c.Counter}
	for _, st := range c.States {
		s.records[storeKey{id, st.Name}] = graindir.Record{Data: st.Data, ETag: tag, Exists: st.Data != nil}
	}
	if s.replies[id] == nil {
		s.replies[id] = map[raysys.TaskID][]byte{}
	}
	for _, call := range c.Forget {
		delete(s.replies[id], call)
	}
	for _, p := range c.Replies {
		if _, twice := s.replies[id][p.Call]; twice {
			s.net.t.Errorf("call %s of %s has a second reply", p.Call, id)
		}
		s.replies[id][p.Call] = p.Data
		s.committed++
	}
	if s.sides[id] == nil {
		s.sides[id] = map[string][]byte{}
	}
	for _, side := range c.Sides {
		if at := string(side.Family) + side.Name; side.Data == nil {
			delete(s.sides[id], at)
		} else {
			s.sides[id][at] = side.Data
		}
	}
	return tag, nil
}

// fakeCounter is the counter of a durable grain.
type fakeCounter struct {
	version graindir.ETag
	counter graindir.Counter
}

// arrive lets the delayed Saves take effect.
func (s *fakeStore) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.late {
		f()
	}
	s.late = nil
}

func (s *fakeStore) record(id graindir.ID, name string) graindir.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[storeKey{id, name}]
}

// Page implements graindir.States; tests of package system have what is listed.
func (f fakeStates) Page(_ graindir.Query, done func(graindir.Page, error)) {
	done(graindir.Page{}, nil)
}

func (f fakeStates) Shards() int { return 1 }
