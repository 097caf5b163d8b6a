package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys/internal/ordered"
	"github.com/raysys/raysys/store"
)

// state is what the store holds. It knows neither locks nor disks. A change is made by one of its methods and then
// either kept or taken back with undo.
type state struct {
	index    uint64 // of the last change that was kept
	pairs    map[string]*store.Pair
	keys     ordered.Set
	sessions map[string]*session

	changes []change // since the last begin
}

// change is one key before and after, nil where there was or is none; or a session that ended. Pairs are never written
// to once they are in.
type change struct {
	key           string
	before, after *store.Pair
	ended         *session
}

func newState() *state {
	return &state{index: 1, pairs: map[string]*store.Pair{}, sessions: map[string]*session{}}
}

// put replaces what is at key; after is nil for nothing.
func (st *state) put(key string, after *store.Pair) {
	before := st.pairs[key]
	if before == nil && after == nil {
		return
	}
	st.changes = append(st.changes, change{key: key, before: before, after: after})
	st.place(key, before, after)
}

func (st *state) place(key string, before, after *store.Pair) {
	if before != nil && before.Session != "" {
		if s := st.sessions[before.Session]; s != nil {
			delete(s.keys, key)
		}
	}
	if after == nil {
		delete(st.pairs, key)
		st.keys.Delete(key)
		return
	}
	st.pairs[key] = after
	st.keys.Insert(key)
	if s := st.sessions[after.Session]; s != nil {
		s.keys[key] = struct{}{}
	}
}

// undo takes back all changes after the first n.
func (st *state) undo(n int) {
	for _, c := range slices.Backward(st.changes[n:]) {
		if c.ended != nil {
			st.sessions[c.ended.id] = c.ended
			continue
		}
		st.place(c.key, c.after, c.before)
	}
	st.changes = st.changes[:n]
}

// txn applies all operations under the index that the next change has, or none of them.
func (st *state) txn(ops []store.Op, index uint64) ([]store.Pair, error) {
	n := len(st.changes)
	pairs := make([]store.Pair, len(ops))
	for i, op := range ops {
		if why := st.apply(op, index); why != "" {
			st.undo(n)
			op.Value = nil
			return nil, &store.RefusedError{Index: i, Op: op, Why: why}
		}
		pairs[i].Key = op.Key
		if p := st.pairs[op.Key]; p != nil && op.Verb != store.VerbDeleteTree {
			pairs[i] = *p
			if op.Verb != store.VerbRead {
				pairs[i].Value = nil
			}
		}
	}
	return pairs, nil
}

// apply makes one operation's change and returns why it must not be made, "" if it may.
func (st *state) apply(op store.Op, index uint64) (why string) {
	p := st.pairs[op.Key]
	switch op.Verb {
	case store.VerbRead:
	case store.VerbCheckSession:
		switch {
		case p == nil:
			return "there is no such key"
		case p.Session != op.Session:
			return fmt.Sprintf("it is held by session %q, not by %q", p.Session, op.Session)
		}
	case store.VerbCheckIndex:
		switch {
		case p == nil:
			return "there is no such key"
		case p.Modify != op.Index:
			return fmt.Sprintf("it was last changed at index %d, not at %d", p.Modify, op.Index)
		}
	case store.VerbCheckNotExists:
		if p != nil {
			return "the key exists"
		}
	case store.VerbSet:
		st.write(op, p, index, held(p))
	case store.VerbCheckAndSet:
		switch {
		case p == nil && op.Index != 0:
			return "there is no such key"
		case p != nil && op.Index == 0:
			return "the key exists"
		case p != nil && p.Modify != op.Index:
			return fmt.Sprintf("it was last changed at index %d, not at %d", p.Modify, op.Index)
		}
		st.write(op, p, index, held(p))
	case store.VerbDelete:
		st.put(op.Key, nil)
	case store.VerbDeleteCAS:
		if p != nil && p.Modify != op.Index {
			return fmt.Sprintf("it was last changed at index %d, not at %d", p.Modify, op.Index)
		}
		st.put(op.Key, nil)
	case store.VerbDeleteTree:
		for _, key := range slices.Collect(st.keys.Prefix(op.Key)) {
			st.put(key, nil)
		}
	case store.VerbLock:
		switch {
		case st.sessions[op.Session] == nil:
			return fmt.Sprintf("session %q is gone", op.Session)
		case p != nil && p.Session != "" && p.Session != op.Session:
			return fmt.Sprintf("it is held by session %q", p.Session)
		}
		st.write(op, p, index, op.Session)
	case store.VerbUnlock:
		if held(p) != op.Session {
			return fmt.Sprintf("it is held by session %q, not by %q", held(p), op.Session)
		}
		st.write(op, p, index, "")
	}
	return ""
}

func held(p *store.Pair) string {
	if p == nil {
		return ""
	}
	return p.Session
}

// write sets the key. As in Consul, what is set to what it is has not changed.
func (st *state) write(op store.Op, p *store.Pair, index uint64, session string) {
	if p != nil && p.Session == session && bytes.Equal(p.Value, op.Value) {
		return
	}
	after := &store.Pair{Key: op.Key, Value: op.Value, Create: index, Modify: index, Session: session}
	if p != nil {
		after.Create = p.Create
	}
	st.put(op.Key, after)
}

// destroy removes the session and the keys that it holds.
func (st *state) destroy(id string) {
	s := st.sessions[id]
	if s == nil {
		return
	}
	keys := make([]string, 0, len(s.keys))
	for key := range s.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys) // changes reach the disk in an order that repeats
	for _, key := range keys {
		st.put(key, nil)
	}
	delete(st.sessions, id)
	st.changes = append(st.changes, change{ended: s})
}

func (st *state) list(prefix string) []store.Pair {
	var pairs []store.Pair
	for key := range st.keys.Prefix(prefix) {
		pairs = append(pairs, *st.pairs[key])
	}
	return pairs
}

// changed reports whether any of the changes lies under prefix.
func changed(changes []change, prefix string) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return c.ended == nil && strings.HasPrefix(c.key, prefix) })
}
