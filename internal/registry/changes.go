package registry

import (
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
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

// changeKind is what happens to a record. The numbers are on the wire.
type changeKind byte

const (
	changeCopy   changeKind = 1 // the asker has the bytes; the record is made if there is none
	changeGone   changeKind = 2 // the asker does not have the bytes any more; a record without locations is removed
	changeName   changeKind = 3 // the name stands for this object from now on
	changeForget changeKind = 4 // the record is removed
)

// Change is one change of the directory, by the node that asks for it.
type Change struct {
	kind changeKind
	key  string
	rec  Record // copy, name: what the asker has
	kept bool   // copy
	only bool   // copy: where there is a record already
	file bool   // copy: in a file that outlives the node
}

// AddCopy says that this node has the bytes of rec, and makes the record if there is none. It is refused when the object's record
// is of another attempt.
func AddCopy(rec Record, kept bool) Change {
	return Change{kind: changeCopy, key: ObjectKey(rec.ID), rec: rec, kept: kept}
}

// AddNamedCopy says under a name that this node keeps the bytes of rec. It is refused unless the name stands for that object.
func AddNamedCopy(key string, rec Record) Change {
	return Change{kind: changeCopy, key: key, rec: rec, kept: true, only: true}
}

// AddNamedFile is AddNamedCopy of bytes that lie in a file which outlives the node.
func AddNamedFile(key string, rec Record) Change {
	return Change{kind: changeCopy, key: key, rec: rec, kept: true, only: true, file: true}
}

// RemoveCopy says that this node does not have the bytes any more.
func RemoveCopy(id raysys.TaskID) Change {
	return Change{kind: changeGone, key: ObjectKey(id)}
}

// SetName has the name stand for rec from now on.
func SetName(key string, rec Record) Change {
	return Change{kind: changeName, key: key, rec: rec}
}

// RemoveName removes the record of a name.
func RemoveName(key string) Change { return Change{kind: changeForget, key: key} }

// Flags of a copy.
const (
	copyKept = 1 << iota
	copyOnly
	copyFile
)

func (ch Change) shardKey() string { return ch.key }

// size counts a change as small: their number alone bounds a request.
func (Change) size() int { return 0 }

func (ch *Change) append(dst []byte) []byte {
	dst = wire.AppendBytes(append(dst, byte(ch.kind)), ch.key)
	if ch.kind == changeCopy || ch.kind == changeName {
		dst = ch.rec.append(dst)
	}
	if ch.kind == changeCopy {
		flags := byte(0)
		if ch.kept {
			flags |= copyKept
		}
		if ch.only {
			flags |= copyOnly
		}
		if ch.file {
			flags |= copyFile
		}
		dst = append(dst, flags)
	}
	return dst
}

func (ch *Change) read(r *wire.Reader) (err error) {
	ch.kind, ch.key = changeKind(r.Byte()), r.String()
	switch ch.kind {
	case changeCopy, changeName:
		if ch.rec, err = readRecord(r); err != nil {
			return err
		}
		if ch.kind == changeCopy {
			flags := r.Byte()
			ch.kept, ch.only, ch.file = flags&copyKept != 0, flags&copyOnly != 0, flags&copyFile != 0
		}
	case changeGone, changeForget:
	default:
		return fmt.Errorf("%w: change %d of an object", wire.ErrCorrupt, ch.kind)
	}
	if err := r.Err(); err != nil {
		return err
	}
	return checkKey(ch.key, false)
}

// apply returns the record after the change, which the node by asks for, and whether there is a record then. ok is false when the
// change may not be made. exists says whether there is a record before it.
func (ch *Change) apply(o Record, exists bool, by core.NodeKey, alive func(core.NodeKey) bool) (after Record, keeps, ok bool) {
	o.At, o.Files = slices.Clone(o.At), slices.Clone(o.Files)
	switch ch.kind {
	case changeCopy:
		switch {
		case !exists && ch.only, !alive(by): // a node that died after it asked has no bytes
			return o, exists, false
		case !exists:
			o = ch.rec
			o.At = nil
		}
		if !o.Same(&ch.rec) {
			return o, exists, false // the bytes are of an attempt that did not win
		}
		o.Enter(Location{by, ch.kept})
		if ch.file {
			o.EnterFile(by.Node)
		}
		return o, true, true
	case changeGone:
		o.leave(by)
		return o, exists && len(o.At) > 0, true
	case changeName:
		return ch.rec, true, true
	case changeForget:
		return o, false, true
	}
	return o, exists, false
}
