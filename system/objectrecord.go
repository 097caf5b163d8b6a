package system

import (
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// objectRecord is what the directory knows of an object: who owns it and which nodes have its bytes. It is a hint on
// where to look; the owner is the authority on what the object is (rule C22).
type objectRecord struct {
	id       raysys.TaskID
	owner    core.NodeKey
	size     int64
	attempt  uint32
	sum      uint64
	replicas int // how many nodes shall keep it, the owner among them; 0 and 1: the owner alone
	at       []location
}

// location is a node that has the bytes.
type location struct {
	node core.NodeKey
	kept bool // it keeps them as the owner does; another copy may go at any time
}

// objectKey is the key of an object's record, nameKey that of a named one.
func objectKey(id raysys.TaskID) string { return "o/" + string(wire.AppendID(nil, id)) }

func nameKey(namespace, name string) string { return "n/" + namespace + "\x00" + name }

// objectVersion is the first byte of an object's record.
const objectVersion = 1

func (o *objectRecord) append(dst []byte) []byte {
	dst = wire.AppendID(append(dst, objectVersion), o.id)
	dst = wire.AppendNode(dst, o.owner)
	for _, v := range []uint64{uint64(o.size), uint64(o.attempt), o.sum, uint64(o.replicas), uint64(len(o.at))} {
		dst = wire.AppendUvarint(dst, v)
	}
	for _, l := range o.at {
		kept := byte(0)
		if l.kept {
			kept = 1
		}
		dst = append(wire.AppendNode(dst, l.node), kept)
	}
	return dst
}

// maxLocations bounds what one record lists: beyond it a copy is not entered, and only its node knows of it.
const maxLocations = 64

func readObjectRecord(r *wire.Reader) (o objectRecord, err error) {
	if v := r.Byte(); v != objectVersion && r.Err() == nil {
		return o, fmt.Errorf("object record: version %d is unknown here: upgrade this node", v)
	}
	o = objectRecord{
		id: r.ID(), owner: wire.ReadNode(r), size: int64(r.Uvarint()), attempt: r.Uint32(), sum: r.Uvarint(), replicas: int(r.Uint32()),
	}
	n := r.Count(2)
	if n > maxLocations || o.size < 0 {
		return o, fmt.Errorf("%w: object record with %d locations and %d bytes", wire.ErrCorrupt, n, o.size)
	}
	for range n {
		o.at = append(o.at, location{wire.ReadNode(r), r.Byte() == 1})
	}
	return o, r.Err()
}

func recordOf(rec store.Record) (objectRecord, error) {
	r := wire.NewReader(rec.Value)
	return readObjectRecord(&r)
}

// has returns the index of a node's entry, -1 when there is none.
func (o *objectRecord) has(k core.NodeKey) int {
	return slices.IndexFunc(o.at, func(l location) bool { return l.node == k })
}

// enter notes that a node has the bytes.
func (o *objectRecord) enter(l location) {
	switch i := o.has(l.node); {
	case i >= 0:
		o.at[i].kept = o.at[i].kept || l.kept
	case len(o.at) < maxLocations:
		o.at = append(o.at, l)
	case l.kept: // what is kept is worth more than a copy that may go
		if i := slices.IndexFunc(o.at, func(l location) bool { return !l.kept }); i >= 0 {
			o.at[i] = l
		}
	}
}

// leave notes that a node has them no more.
func (o *objectRecord) leave(k core.NodeKey) {
	o.at = slices.DeleteFunc(o.at, func(l location) bool { return l.node == k })
}

// changeKind is what happens to a record. The numbers are on the wire.
type changeKind byte

const (
	changeCopy   changeKind = 1 // the asker has the bytes; the record is made if there is none
	changeGone   changeKind = 2 // the asker has them no more; a record without locations goes
	changeName   changeKind = 3 // this is what the name stands for from now on
	changeForget changeKind = 4 // the record goes
	changeAdopt  changeKind = 5 // the asker, which keeps the bytes, becomes the owner if the present one is dead
)

// objectChange is one change of the directory.
type objectChange struct {
	kind changeKind
	key  string
	rec  objectRecord // copy, name: what the asker has
	kept bool         // copy
	only bool         // copy: where the record is there already
}

func (ch *objectChange) append(dst []byte) []byte {
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
		dst = append(dst, flags)
	}
	return dst
}

// Flags of a copy.
const (
	copyKept = 1 << iota
	copyOnly
)

func readObjectChange(r *wire.Reader) (ch objectChange, err error) {
	ch.kind, ch.key = changeKind(r.Byte()), r.String()
	switch ch.kind {
	case changeCopy, changeName:
		if ch.rec, err = readObjectRecord(r); err != nil {
			return ch, err
		}
		if ch.kind == changeCopy {
			flags := r.Byte()
			ch.kept, ch.only = flags&copyKept != 0, flags&copyOnly != 0
		}
	case changeGone, changeForget, changeAdopt:
	default:
		return ch, fmt.Errorf("%w: change %d of an object", wire.ErrCorrupt, ch.kind)
	}
	return ch, r.Err()
}

// apply returns the record after the change; ok is false when it may not be made. exists tells whether there is a
// record before and after.
func (ch *objectChange) apply(o objectRecord, exists bool, by core.NodeKey, alive func(core.NodeKey) bool) (after objectRecord, keeps, ok bool) {
	o.at = slices.Clone(o.at)
	switch ch.kind {
	case changeCopy:
		switch {
		case !exists && ch.only, !alive(by): // whoever died since it asked
			return o, exists, false
		case !exists:
			o = ch.rec
			o.at = nil
		}
		if o.attempt != ch.rec.attempt || o.sum != ch.rec.sum || o.size != ch.rec.size || o.id != ch.rec.id {
			return o, exists, false // of an attempt that did not win
		}
		o.enter(location{by, ch.kept})
		return o, true, true
	case changeGone:
		o.leave(by)
		return o, exists && len(o.at) > 0, true
	case changeName:
		return ch.rec, true, true
	case changeForget:
		return o, false, true
	case changeAdopt:
		if !exists || o.owner != by && alive(o.owner) || o.has(by) < 0 {
			return o, exists, false
		}
		o.owner = by
		return o, true, true
	}
	return o, exists, false
}

// reap takes out who is not alive; changed is false when nobody was.
func (o *objectRecord) reap(alive func(core.NodeKey) bool) (changed bool) {
	n := len(o.at)
	o.at = slices.DeleteFunc(o.at, func(l location) bool { return !alive(l.node) })
	return len(o.at) != n
}
