package grainengine_test

import (
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
)

type storeKey struct {
	id   grainengine.ID
	name string
}

// fakeStore keeps the States of a fakeNet: conditional on the token and the ETag, with faults.
type fakeStore struct {
	net *fakeNet

	mu      sync.Mutex // guards the rest; taken before net.mu
	records map[storeKey]grainengine.Record
	seq     uint64

	counters  map[grainengine.ID]fakeCounter
	replies   map[grainengine.ID]map[raysys.TaskID][]byte
	committed int // replies, of all grains

	loads  int
	saves  int
	onSave func(id grainengine.ID, name string) fault
	onLoad func(id grainengine.ID) error
	late   []func() // Saves that take effect later
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

func (s *fakeStore) current(id grainengine.ID, token grainengine.Token) error {
	if now := s.net.placeOf(id).Token; now != token {
		return fmt.Errorf("%w: its token is %v, and now it is %v", raysys.ErrMoved, token, now)
	}
	return nil
}

func (f fakeStates) Load(id grainengine.ID, names []string, token grainengine.Token, done func([]grainengine.Record, error)) {
	s := f.node.net.store
	f.node.net.answer("load", func() { done(s.load(f.node, id, names, token)) })
}

func (s *fakeStore) load(n *fakeNode, id grainengine.ID, names []string, token grainengine.Token) ([]grainengine.Record, error) {
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
	var rs []grainengine.Record
	for _, name := range names {
		rs = append(rs, s.records[storeKey{id, name}])
	}
	return rs, nil
}

func (f fakeStates) Save(id grainengine.ID, name string, token grainengine.Token, etag grainengine.ETag, data []byte, done func(grainengine.ETag, error)) {
	s := f.node.net.store
	f.node.net.answer("save", func() { done(s.save(id, name, token, etag, data)) })
}

func (s *fakeStore) save(id grainengine.ID, name string, token grainengine.Token, etag grainengine.ETag, data []byte) (grainengine.ETag, error) {
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
		return grainengine.ETag{}, unknown
	case saveRefused:
		return grainengine.ETag{}, fmt.Errorf("%w: by test", raysys.ErrOverloaded)
	case saveDelayed:
		s.late = append(s.late, func() { _, _ = s.put(id, name, token, etag, data) })
		return grainengine.ETag{}, unknown
	}
	tag, err := s.put(id, name, token, etag, data)
	if how == saveStored {
		return grainengine.ETag{}, unknown
	}
	return tag, err
}

func (s *fakeStore) put(id grainengine.ID, name string, token grainengine.Token, etag grainengine.ETag, data []byte) (grainengine.ETag, error) {
	if err := s.current(id, token); err != nil {
		return grainengine.ETag{}, err
	}
	k := storeKey{id, name}
	if s.records[k].ETag != etag {
		return grainengine.ETag{}, fmt.Errorf("%w: it is %v", grains.ErrETag, s.records[k].ETag)
	}
	s.seq++
	r := grainengine.Record{Data: data, ETag: grainengine.ETag{Epoch: 1, Seq: s.seq}, Exists: data != nil}
	s.records[k] = r
	return r.ETag, nil
}

func (f fakeStates) Restore(id grainengine.ID, names []string, token grainengine.Token, done func(grainengine.Restored, error)) {
	s := f.node.net.store
	f.node.net.answer("restore", func() { done(s.restore(f.node, id, names, token)) })
}

func (s *fakeStore) restore(n *fakeNode, id grainengine.ID, names []string, token grainengine.Token) (r grainengine.Restored, err error) {
	if r.States, err = s.load(n, id, names, token); err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[id]
	r.Version, r.Counter = c.version, c.counter
	for call, data := range s.replies[id] {
		r.Replies = append(r.Replies, grainengine.StoredReply{Call: call, Data: data})
	}
	return r, nil
}

func (f fakeStates) Commit(id grainengine.ID, token grainengine.Token, c grainengine.Commit, done func(grainengine.ETag, error)) {
	s := f.node.net.store
	f.node.net.answer("commit", func() { done(s.commit(id, token, c)) })
}

func (s *fakeStore) commit(id grainengine.ID, token grainengine.Token, c grainengine.Commit) (grainengine.ETag, error) {
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
		return grainengine.ETag{}, unknown
	case saveRefused:
		return grainengine.ETag{}, fmt.Errorf("%w: by test", raysys.ErrUnreachable)
	case saveDelayed:
		s.late = append(s.late, func() { _, _ = s.make(id, token, c) })
		return grainengine.ETag{}, unknown
	}
	tag, err := s.make(id, token, c)
	if how == saveStored {
		return grainengine.ETag{}, unknown
	}
	return tag, err
}

// make makes a commit.
func (s *fakeStore) make(id grainengine.ID, token grainengine.Token, c grainengine.Commit) (grainengine.ETag, error) {
	if err := s.current(id, token); err != nil {
		return grainengine.ETag{}, err
	}
	if now := s.counters[id].version; now != c.After {
		return grainengine.ETag{}, fmt.Errorf("%w: it is %v", grains.ErrETag, now)
	}
	s.seq++
	tag := grainengine.ETag{Epoch: 1, Seq: s.seq}
	s.counters[id] = fakeCounter{tag, c.Counter}
	for _, st := range c.States {
		s.records[storeKey{id, st.Name}] = grainengine.Record{Data: st.Data, ETag: tag, Exists: st.Data != nil}
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
	return tag, nil
}

// fakeCounter is the counter of a durable grain.
type fakeCounter struct {
	version grainengine.ETag
	counter grainengine.Counter
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

func (s *fakeStore) record(id grainengine.ID, name string) grainengine.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[storeKey{id, name}]
}
