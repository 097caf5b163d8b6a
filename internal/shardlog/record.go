package shardlog

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/store"
)

// Records are framed alike in segments and in snapshots: a type, the length of the body, the body. A type that this
// program does not know is kept as it is and otherwise passed over.
type recordType byte

const (
	recordPut      recordType = 1 // in a segment: key length, key, value
	recordDelete   recordType = 2 // in a segment: key
	recordHandover recordType = 3 // in a segment, its last record: the node that released the shard
	recordEntry    recordType = 4 // in a snapshot: epoch, seq, key length, key, value
	recordKept     recordType = 5 // in a snapshot: epoch, seq, type and body of a segment's record of unknown type
)

const (
	maxUvarint = binary.MaxVarintLen32
	maxFrame   = 1 + maxUvarint
)

func appendFrame(b []byte, t recordType, size int) []byte {
	return binary.AppendUvarint(append(b, byte(t)), uint64(size))
}

func uvarintLen(x uint64) int {
	n := 1
	for ; x >= 0x80; x >>= 7 {
		n++
	}
	return n
}

func appendPut(b []byte, key string, value []byte) []byte {
	b = appendFrame(b, recordPut, uvarintLen(uint64(len(key)))+len(key)+len(value))
	b = binary.AppendUvarint(b, uint64(len(key)))
	return append(append(b, key...), value...)
}

func appendDelete(b []byte, key string) []byte {
	return append(appendFrame(b, recordDelete, len(key)), key...)
}

func appendHandover(b []byte, node string) []byte {
	return append(appendFrame(b, recordHandover, len(node)), node...)
}

func appendEntry(b []byte, key string, r Record) []byte {
	size := uvarintLen(r.Version.Epoch) + uvarintLen(r.Version.Seq) + uvarintLen(uint64(len(key))) + len(key) + len(r.Value)
	b = appendFrame(b, recordEntry, size)
	b = binary.AppendUvarint(b, r.Version.Epoch)
	b = binary.AppendUvarint(b, r.Version.Seq)
	b = binary.AppendUvarint(b, uint64(len(key)))
	return append(append(b, key...), r.Value...)
}

func appendKept(b []byte, v Version, k kept) []byte {
	b = appendFrame(b, recordKept, uvarintLen(v.Epoch)+uvarintLen(v.Seq)+1+len(k.body))
	b = binary.AppendUvarint(b, v.Epoch)
	b = binary.AppendUvarint(b, v.Seq)
	return append(append(b, byte(k.typ)), k.body...)
}

// kept is a record of a type that this program does not know.
type kept struct {
	typ  recordType
	body string
}

// reader takes records apart. After the first error it yields nothing more.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", store.ErrCorrupt, what)
	}
	r.rest = nil
}

// next returns the next record's type and body; ok is false at the end and after an error.
func (r *reader) next() (t recordType, body reader, ok bool) {
	if len(r.rest) == 0 {
		return 0, reader{}, false
	}
	t = recordType(r.rest[0])
	r.rest = r.rest[1:]
	n := r.uvarint()
	if r.err == nil && n > uint64(len(r.rest)) {
		r.fail("a record ends beyond its segment")
	}
	if r.err != nil {
		return 0, reader{}, false
	}
	body.rest = r.rest[:n:n]
	r.rest = r.rest[n:]
	return t, body, true
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("a number has no end")
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

func (r *reader) version() Version { return Version{r.uvarint(), r.uvarint()} }

// key returns a string with its length before it.
func (r *reader) key() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) || n == 0 {
		r.fail("a record without a whole key")
		return ""
	}
	key := string(r.rest[:n])
	r.rest = r.rest[n:]
	return key
}

// value returns a copy of the rest, which lets the whole segment be freed.
func (r *reader) value() []byte {
	v := append([]byte(nil), r.rest...)
	r.rest = nil
	return v
}
