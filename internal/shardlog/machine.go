package shardlog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/raysys/raysys/store"

	"github.com/raysys/raysys/internal/ordered"
)

// machine is the table of a shard: committed records, and nothing that is not committed. It does no I/O and knows no
// time; applying the same blocks gives the same machine.
type machine struct {
	records map[string]Record
	keys    ordered.Set
	kept    map[Version]kept // segments' records of unknown types
	foreign []kept           // snapshots' records of unknown types
	bytes   int              // of a snapshot of the machine, before packing

	epoch uint64 // of the last segment applied
	next  uint64 // number of the segment after it
}

func newMachine() *machine {
	return &machine{records: map[string]Record{}, kept: map[Version]kept{}, next: 1}
}

// entryBytes is about how many bytes a record takes in a snapshot beside its key and value.
const entryBytes = 24

func (m *machine) put(key string, r Record) {
	if old, ok := m.records[key]; ok {
		m.bytes -= len(old.Value)
	} else {
		m.keys.Insert(key)
		m.bytes += len(key) + entryBytes
	}
	m.bytes += len(r.Value)
	m.records[key] = r
}

func (m *machine) delete(key string) {
	old, ok := m.records[key]
	if !ok {
		return
	}
	m.bytes -= len(key) + len(old.Value) + entryBytes
	delete(m.records, key)
	m.keys.Delete(key)
}

// apply takes a segment, whose number must be next. An error leaves the machine in between: throw it away.
func (m *machine) apply(b *block) error {
	if b.seq != m.next || b.epoch < m.epoch {
		return fmt.Errorf("%w: segment %d of epoch %d, want %d of epoch %d or later", store.ErrCorrupt, b.seq, b.epoch, m.next, m.epoch)
	}
	v := Version{b.epoch, b.first}
	all := reader{rest: b.raw}
	for {
		t, body, ok := all.next()
		if !ok {
			break
		}
		switch t {
		case recordPut:
			key := body.key()
			if body.err == nil {
				m.put(key, Record{body.value(), v})
			}
		case recordDelete:
			m.delete(string(body.rest))
		case recordHandover:
		default:
			m.keep(v, kept{t, string(body.rest)})
		}
		if body.err != nil {
			return fmt.Errorf("segment %d: %w", b.seq, body.err)
		}
		v.Seq++
	}
	if all.err != nil {
		return fmt.Errorf("segment %d: %w", b.seq, all.err)
	}
	m.epoch, m.next = b.epoch, b.seq+1
	return nil
}

func (m *machine) keep(v Version, k kept) {
	if _, ok := m.kept[v]; !ok {
		m.bytes += len(k.body) + entryBytes
	}
	m.kept[v] = k
}

// load takes a part of a snapshot. Parts come before segments.
func (m *machine) load(b *block) error {
	all := reader{rest: b.raw}
	for {
		t, body, ok := all.next()
		if !ok {
			break
		}
		switch t {
		case recordEntry:
			v, key := body.version(), body.key()
			if body.err == nil {
				m.put(key, Record{body.value(), v})
			}
		case recordKept:
			v := body.version()
			if body.err == nil && len(body.rest) == 0 {
				body.fail("a kept record without a type")
			}
			if body.err == nil {
				m.keep(v, kept{recordType(body.rest[0]), string(body.rest[1:])})
			}
		default:
			m.foreign = append(m.foreign, kept{t, string(body.rest)})
			m.bytes += len(body.rest) + entryBytes
		}
		if body.err != nil {
			return fmt.Errorf("part %d: %w", b.seq, body.err)
		}
	}
	if all.err != nil {
		return fmt.Errorf("part %d: %w", b.seq, all.err)
	}
	return nil
}

// cursor is how far a snapshot has come. Between two calls of part the machine may change: a snapshot may hold
// changes of segments that are applied after it again, which ends in the same state, because a segment has whole
// records and not differences.
type cursor struct {
	begun  bool
	frames [][]byte // records of unknown types that are still to be written: few if any, they come from a newer program
	after  string   // the last key written
	ended  bool
}

// part returns the records of the snapshot's next part, at most maxSegmentRaw bytes unless one record has more, nil
// after the last.
func (m *machine) part(c *cursor) []byte {
	if c.ended {
		return nil
	}
	if !c.begun {
		c.begun = true
		c.frames = m.unknown()
	}
	b := []byte{}
	for ; len(c.frames) > 0; c.frames = c.frames[1:] {
		if len(b) > 0 && len(b)+len(c.frames[0]) > maxSegmentRaw {
			return b
		}
		b = append(b, c.frames[0]...)
	}
	for key := range m.keys.From("", c.after) {
		if key == c.after {
			continue
		}
		r := m.records[key]
		if len(b) > 0 && len(b)+maxFrame+3*binary.MaxVarintLen64+len(key)+len(r.Value) > maxSegmentRaw {
			return b
		}
		b = appendEntry(b, key, r)
		c.after = key
	}
	c.ended = true
	return b
}

// unknown returns the framed records of unknown types, in an order that repeats.
func (m *machine) unknown() [][]byte {
	var frames [][]byte
	for _, k := range m.foreign {
		frames = append(frames, append(appendFrame(nil, k.typ, len(k.body)), k.body...))
	}
	versions := slices.SortedFunc(maps.Keys(m.kept), Version.compare)
	for _, v := range versions {
		frames = append(frames, appendKept(nil, v, m.kept[v]))
	}
	return frames
}
