package registry

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// changes changes records of objects that lie in one shard: all changes are committed or none, and each may be refused.
// A node may change its own part of a record: the sender of the request.
type changes struct{ list []Change }

func (*changes) code() code { return codeChanges }

func (o *changes) shardKey() string { return o.list[0].key }

// maxChanges bounds the changes of one request: they are one batch of the shard.
const maxChanges = 64

func (o *changes) append(dst []byte) []byte {
	dst = wire.AppendUvarint((&grain{}).append(dst), uint64(len(o.list)))
	for i := range o.list {
		dst = o.list[i].append(dst)
	}
	return dst
}

func (o *changes) read(r *wire.Reader) error {
	if err := new(grain).read(r); err != nil {
		return err
	}
	n := r.Count(2)
	if n == 0 || n > maxChanges {
		return fmt.Errorf("%w: %d changes of objects", wire.ErrCorrupt, n)
	}
	o.list = make([]Change, n)
	for i := range o.list {
		if err := o.list[i].read(r); err != nil {
			return err
		}
	}
	return nil
}

func (*changes) appendAnswer(dst []byte, entries []Entry) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(entries)))
	for i := range entries {
		dst = entries[i].append(dst)
	}
	return dst
}

func (o *changes) readAnswer(r *wire.Reader) ([]Entry, error) {
	return readEntries(r, len(o.list))
}

func readEntries(r *wire.Reader, want int) ([]Entry, error) {
	n := r.Count(1)
	if n != want {
		return nil, fmt.Errorf("%w: %d records for %d", wire.ErrCorrupt, n, want)
	}
	entries := make([]Entry, n)
	for i := range entries {
		if err := entries[i].read(r); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// objectTable has a leader's open requests about objects; the records lie in the shard's table. When the leader ends,
// the askers ask the next one.
type objectTable struct {
	changing map[string][]request     // by keys whose change is being committed: the requests that wait for its outcome
	watching map[string][]request     // by key: the requests that wait for a change
	open     map[*asked[[]Entry]]bool // the requests whose changes are being committed
}

func newObjectTable() objectTable {
	return objectTable{map[string][]request{}, map[string][]request{}, map[*asked[[]Entry]]bool{}}
}

// changed is the outcome of committing changes.
type changed struct {
	q       *asked[[]Entry] // nil for a reaping
	entries []Entry
	keys    []string
	err     error
}

func (o *changes) serve(l *leader, q *asked[[]Entry]) {
	for i := range o.list {
		key := o.list[i].key
		if l.reg.cfg.Layout.ShardOf(key) != q.shard {
			q.fail(fmt.Errorf("%w: changes of objects in several shards", wire.ErrCorrupt))
			return
		}
		if _, busy := l.objects.changing[key]; busy {
			l.objects.changing[key] = append(l.objects.changing[key], q)
			return
		}
	}
	now := map[string]*Entry{}
	before := map[string]store.Version{}
	entries := make([]Entry, len(o.list))
	for i := range o.list {
		ch := &o.list[i]
		e := now[ch.key]
		if e == nil {
			e = &Entry{}
			if rec, ok := l.shard.Get(ch.key); ok {
				r, err := recordOf(rec)
				if err != nil {
					q.fail(err)
					return
				}
				*e = Entry{Exists: true, Record: r, Version: rec.Version}
				before[ch.key] = rec.Version
			}
		}
		after, exists, ok := ch.apply(e.Record, e.Exists, q.from, l.alive)
		if !ok {
			entries[i] = *e
			entries[i].Refused = true
			continue
		}
		e.Record, e.Exists = after, exists
		now[ch.key] = e
		entries[i] = *e
	}
	l.commitRecords(q, now, before, entries)
}

// commitRecords commits the records in now, on condition that each has the version in before. q is nil for a reaping.
func (l *leader) commitRecords(q *asked[[]Entry], now map[string]*Entry, before map[string]store.Version, entries []Entry) {
	if len(now) == 0 {
		if q != nil {
			q.answer(entries, nil)
		}
		return
	}
	if q != nil {
		l.objects.open[q] = true
	}
	var b store.Batch
	keys := make([]string, 0, len(now))
	puts := map[string]int{}
	for key, e := range now {
		keys = append(keys, key)
		l.objects.changing[key] = nil
		if e.Exists || before[key] != (store.Version{}) {
			b.Checks = append(b.Checks, store.Check{Key: key, Version: before[key]})
		}
		if e.Exists {
			puts[key] = len(b.Puts)
			b.Puts = append(b.Puts, store.Put{Key: key, Value: e.Record.append(nil)})
		} else {
			b.Deletes = append(b.Deletes, key)
		}
	}
	var list []Change
	if q != nil {
		list = q.operation.(*changes).list
	}
	l.propose(b, func(res store.Result, err error) {
		if err == nil {
			for i := range entries {
				if n, ok := puts[list[i].key]; ok && !entries[i].Refused {
					entries[i].Version = res.Version(n)
				}
			}
		}
		l.post(&changed{q, entries, keys, err})
	})
}

// changed answers the request whose changes were committed, serves the requests that waited for that, and wakes those
// that wait for a change.
func (l *leader) changed(m *changed) {
	delete(l.objects.open, m.q)
	var next []request
	for _, key := range m.keys {
		next = append(next, l.objects.changing[key]...)
		delete(l.objects.changing, key)
	}
	switch {
	case m.q == nil:
		if refusedForNow(m.err) {
			l.postpone(m.keys)
		}
	case errors.Is(m.err, store.ErrConflict):
		next = append([]request{m.q}, next...)
	case m.err != nil:
		m.q.fail(outcome(m.err))
	default:
		m.q.answer(m.entries, nil)
	}
	if m.err == nil {
		for _, key := range m.keys {
			l.wake(key)
		}
	}
	for _, q := range next {
		q.serveAt(l)
	}
}

// stopObjects sends all open requests to the next leader, also those whose changes may have been committed: a change
// that is made again comes to the same.
func (l *leader) stopObjects() {
	for q := range l.objects.open {
		q.fail(errNotLeader)
	}
	for _, table := range []map[string][]request{l.objects.changing, l.objects.watching} {
		for _, waiting := range table {
			for _, q := range waiting {
				q.fail(errNotLeader)
			}
		}
	}
	l.objects = objectTable{}
}
