package registry

import (
	"fmt"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// changes changes records of objects that lie in one shard: all changes are committed or none, and each may be refused.
// A node may change its own part of a record: the sender of the request.
type changes struct{ list []Change }

func (*changes) code() code { return codeChanges }

func (o *changes) shardKey() string { return o.list[0].key }

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

func (o *changes) serve(l *leader, q *asked[[]Entry]) {
	keys := make([]string, len(o.list))
	for i := range keys {
		keys[i] = o.list[i].key
	}
	if !l.free(q, keys) {
		return
	}
	now := map[string]*Entry{}
	before := map[string]shardlog.Version{}
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
	if len(now) == 0 {
		q.answer(entries, nil)
		return
	}
	b, puts := objectBatch(now, before)
	b.committed = func(res shardlog.Result) {
		for i := range entries {
			if n, ok := puts[o.list[i].key]; ok && !entries[i].Refused {
				entries[i].Version = res.Version(n)
			}
		}
	}
	l.commitRecords(q, []recordBatch{b}, func() { q.answer(entries, nil) })
}

// objectBatch changes the records to those in now, on condition that each has the version in before. puts has the
// indices of its puts, by key.
func objectBatch(now map[string]*Entry, before map[string]shardlog.Version) (b recordBatch, puts map[string]int) {
	puts = map[string]int{}
	for key, e := range now {
		b.keys = append(b.keys, key)
		if e.Exists || before[key] != (shardlog.Version{}) {
			b.Checks = append(b.Checks, shardlog.Check{Key: key, Version: before[key]})
		}
		if e.Exists {
			puts[key] = len(b.Puts)
			b.Puts = append(b.Puts, shardlog.Put{Key: key, Value: e.Record.append(nil)})
		} else {
			b.Deletes = append(b.Deletes, key)
		}
	}
	return b, puts
}
