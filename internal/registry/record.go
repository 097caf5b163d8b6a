package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// Record is what the directory knows of an object: its owner, and the nodes that have its bytes. It is a hint on where
// to look; the owner decides what the object is (rule C22).
type Record struct {
	ID       raysys.TaskID
	Owner    core.NodeKey
	Size     int64
	Attempt  uint32
	Nonce    uint64
	Replicas int // how many nodes shall keep it, the owner among them; 0 and 1: the owner alone
	At       []Location
	// Files are the names of the nodes that have the bytes in a file which outlives them. A later incarnation of such a
	// node offers its file again, so reaping leaves them alone.
	Files []raysys.NodeID
}

// Location is a node that has the bytes.
type Location struct {
	Node core.NodeKey
	Kept bool // the node keeps them, as the owner does; other copies may be dropped at any time
}

// ObjectKey is the key of an object's record.
func ObjectKey(id raysys.TaskID) string { return "o/" + string(wire.AppendID(nil, id)) }

// NameKey is the key of the record of a named object.
func NameKey(namespace, name string) string { return "n/" + namespace + "\x00" + name }

// IsNameKey reports whether a key is that of a name's record: see NameKey.
func IsNameKey(key string) bool { return strings.HasPrefix(key, "n/") && strings.Contains(key, "\x00") }

// IsStateKey reports whether a key is that of a State's record, of namespace, kind, key and name: see StateKey.
func IsStateKey(key string) bool {
	return strings.HasPrefix(key, "s/") && strings.Count(key, "\x00") >= 3
}

// checkKey refuses a key that is none of the object directory. Another node may ask by key for the records of objects
// and of names and, with states, for the objects that a State lists.
func checkKey(key string, states bool) error {
	switch {
	case strings.HasPrefix(key, "o/"), strings.HasPrefix(key, "n/"):
		return nil
	case states && IsStateKey(key):
		return nil
	}
	return fmt.Errorf("%w: %.64q is no key of the object directory", wire.ErrCorrupt, key)
}

// The first byte of an object's record.
const (
	objectVersion  = 1
	objectWithFile = 2 // Files follow
)

func (o *Record) append(dst []byte) []byte {
	version := byte(objectVersion)
	if len(o.Files) > 0 {
		version = objectWithFile
	}
	dst = wire.AppendID(append(dst, version), o.ID)
	dst = wire.AppendNode(dst, o.Owner)
	for _, v := range []uint64{uint64(o.Size), uint64(o.Attempt), o.Nonce, uint64(o.Replicas), uint64(len(o.At))} {
		dst = wire.AppendUvarint(dst, v)
	}
	for _, l := range o.At {
		kept := byte(0)
		if l.Kept {
			kept = 1
		}
		dst = append(wire.AppendNode(dst, l.Node), kept)
	}
	if version == objectWithFile {
		dst = wire.AppendUvarint(dst, uint64(len(o.Files)))
		for _, n := range o.Files {
			dst = wire.AppendBytes(dst, n)
		}
	}
	return dst
}

// maxLocations bounds the locations of one record. A copy beyond it is not entered, and only its node knows of it.
const maxLocations = 64

func readRecord(r *wire.Reader) (o Record, err error) {
	version := r.Byte()
	if version != objectVersion && version != objectWithFile && r.Err() == nil {
		return o, fmt.Errorf("object record: version %d is unknown here: upgrade this node", version)
	}
	o = Record{
		ID: r.ID(), Owner: wire.ReadNode(r), Size: int64(r.Uvarint()), Attempt: r.Uint32(), Nonce: r.Uvarint(), Replicas: int(r.Uint32()),
	}
	n := r.Count(2)
	if n > maxLocations || o.Size < 0 {
		return o, fmt.Errorf("%w: object record with %d locations and %d bytes", wire.ErrCorrupt, n, o.Size)
	}
	for range n {
		o.At = append(o.At, Location{wire.ReadNode(r), r.Byte() == 1})
	}
	if version == objectWithFile {
		if n = r.Count(1); n > maxLocations {
			return o, fmt.Errorf("%w: object record with %d files", wire.ErrCorrupt, n)
		}
		for range n {
			o.Files = append(o.Files, raysys.NodeID(r.String()))
		}
	}
	return o, r.Err()
}

// Append appends the record to what a State's record says of its object; ReadRecord reads it.
func (o *Record) Append(dst []byte) []byte { return o.append(dst) }

// ReadRecord reads what Append wrote.
func ReadRecord(b []byte) (Record, error) {
	r := wire.NewReader(b)
	return readRecord(&r)
}

func recordOf(rec shardlog.Record) (Record, error) {
	r := wire.NewReader(rec.Value)
	return readRecord(&r)
}

// has returns the index of a node's location, -1 when there is none.
func (o *Record) has(k core.NodeKey) int {
	return slices.IndexFunc(o.At, func(l Location) bool { return l.Node == k })
}

// Enter notes that a node has the bytes.
func (o *Record) Enter(l Location) {
	switch i := o.has(l.Node); {
	case i >= 0:
		o.At[i].Kept = o.At[i].Kept || l.Kept
	case len(o.At) < maxLocations:
		o.At = append(o.At, l)
	case l.Kept: // a kept copy takes the place of one that may be dropped
		if i := slices.IndexFunc(o.At, func(l Location) bool { return !l.Kept }); i >= 0 {
			o.At[i] = l
		}
	}
}

// EnterFile notes that a node has the bytes in a file.
func (o *Record) EnterFile(n raysys.NodeID) {
	if !slices.Contains(o.Files, n) && len(o.Files) < maxLocations {
		o.Files = append(o.Files, n)
	}
}

// Same reports whether two records are of the same bytes.
func (o *Record) Same(p *Record) bool {
	return o.ID == p.ID && o.Attempt == p.Attempt && o.Nonce == p.Nonce && o.Size == p.Size
}

// leave removes a node's location.
func (o *Record) leave(k core.NodeKey) {
	o.At = slices.DeleteFunc(o.At, func(l Location) bool { return l.Node == k })
}

// reap removes the locations of nodes that are not alive; changed is false when all are.
func (o *Record) reap(alive func(core.NodeKey) bool) (changed bool) {
	n := len(o.At)
	o.At = slices.DeleteFunc(o.At, func(l Location) bool { return !alive(l.Node) })
	return len(o.At) != n
}

// Entry is a record of the directory as it is now.
type Entry struct {
	Refused bool // the change was not made
	Exists  bool
	Record  Record
	Version shardlog.Version
	Held    []raysys.TaskID // of the record of a State: the objects that it lists; Record is that of the State's own, if it is one
}

// Bits of an Entry.
const (
	entryRefused = 1 << iota
	entryExists
)

func (e *Entry) append(dst []byte) []byte {
	bits := byte(0)
	if e.Refused {
		bits |= entryRefused
	}
	if !e.Exists {
		return append(dst, bits)
	}
	dst = wire.AppendStamp(append(dst, bits|entryExists), e.Version)
	dst = e.Record.append(dst)
	dst = wire.AppendUvarint(dst, uint64(len(e.Held)))
	for _, id := range e.Held {
		dst = wire.AppendID(dst, id)
	}
	return dst
}

func (e *Entry) read(r *wire.Reader) (err error) {
	bits := r.Byte()
	e.Refused, e.Exists = bits&entryRefused != 0, bits&entryExists != 0
	if e.Exists {
		e.Version = wire.ReadStamp[shardlog.Version](r)
		e.Record, err = readRecord(r)
		for range r.Count(16) {
			e.Held = append(e.Held, r.ID())
		}
	}
	return err
}
