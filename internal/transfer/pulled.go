package transfer

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// status says which answer to a pull a frame is.
type status uint8

const (
	statusReady     status = 0 // manifest: ask for chunks
	statusElsewhere status = 1 // nodes
	statusShared    status = 2 // manifest and what to map
	statusRefused   status = 3 // code and text; it may also come later, and ends the conversation
)

// sums says where those of an answer are. The last two are for receivers that said pullSums.
type sums uint8

const (
	sumsHere   sums = 0 // they follow
	sumsKnown  sums = 1 // the receiver has them
	sumsLater  sums = 2 // their mark follows; they come with the chunks
	sumsMarked sums = 3 // their mark follows, and they do
)

// pulled answers a pull.
type pulled struct {
	slot   uint64
	status status
	man    objectstore.Manifest // without sums if the receiver has them
	known  bool                 // it is without sums
	later  bool                 // they come with the chunks
	mark   uint64               // what the sums are known by, or 0
	nodes  []core.NodeKey
	sent   bool   // the nodes will be there for the receiver, even if they are still receiving
	shared []byte // an encoded objectstore.Shared
	code   code
	text   string
}

func (a *pulled) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, a.slot)
	dst = append(dst, byte(a.status))
	switch a.status {
	case statusReady, statusShared:
		dst = appendVersion(dst, a.man.Version)
		how := a.sums()
		dst = append(dst, byte(how))
		if how == sumsLater || how == sumsMarked {
			dst = binary.LittleEndian.AppendUint64(dst, a.mark)
		}
		if how == sumsHere || how == sumsMarked {
			dst = binary.AppendUvarint(dst, uint64(len(a.man.Chunks)))
			for _, s := range a.man.Chunks {
				dst = binary.LittleEndian.AppendUint32(dst, s)
			}
		}
		if a.status == statusShared {
			dst = wire.AppendBytes(dst, a.shared)
		}
	case statusElsewhere:
		dst = appendKeys(appendBool(dst, a.sent), a.nodes)
	case statusRefused:
		dst = append(dst, byte(a.code))
		dst = wire.AppendBytes(dst, cut(a.text))
	}
	return dst
}

func (a *pulled) sums() sums {
	switch {
	case a.later:
		return sumsLater
	case a.known:
		return sumsKnown
	case a.mark != 0:
		return sumsMarked
	}
	return sumsHere
}

func (a *pulled) outline() objectstore.Outline {
	return objectstore.Outline{Manifest: a.man, Whole: !a.later, Mark: a.mark}
}

func (a *pulled) read(b []byte) error {
	r := wire.NewReader(b)
	a.slot, a.status = r.Uvarint(), status(r.Byte())
	switch a.status {
	case statusReady, statusShared:
		a.man.Version = readVersion(&r)
		how := sums(r.Byte())
		a.known, a.later = how == sumsKnown, how == sumsLater
		if how == sumsLater || how == sumsMarked {
			a.mark = r.Uint64()
		}
		if !a.known && !a.later {
			n := r.Count(4)
			a.man.Chunks = make([]uint32, n)
			for i := range a.man.Chunks {
				a.man.Chunks[i] = readSum(&r)
			}
		}
		if a.status == statusShared {
			a.shared = append([]byte(nil), r.Bytes()...)
		}
	case statusElsewhere:
		a.sent = r.Byte() == 1
		for range readCount(&r) {
			a.nodes = append(a.nodes, readKey(&r))
		}
	case statusRefused:
		a.code, a.text = code(r.Byte()), readText(&r)
	default:
		// Of a later version: whatever it is, it is no answer that this one can use.
		a.status, a.code, a.text = statusRefused, codeOther, fmt.Sprintf("answer of kind %d", a.status)
	}
	return r.Err()
}
