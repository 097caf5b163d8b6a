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
	statusReady     status = 0 // version: ask for chunks
	statusElsewhere status = 1 // nodes
	statusShared    status = 2 // version and what to map
	statusRefused   status = 3 // code and text; it may also come later, and ends the conversation
)

// pulled answers a pull.
type pulled struct {
	slot    uint64
	status  status
	version objectstore.Version
	nodes   []core.NodeKey
	sent    bool   // the nodes will be there for the receiver, even if they are still receiving
	shared  []byte // an encoded objectstore.Shared
	code    code
	text    string
}

func (a *pulled) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, a.slot)
	dst = append(dst, byte(a.status))
	switch a.status {
	case statusReady, statusShared:
		dst = appendVersion(dst, a.version)
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

func (a *pulled) read(b []byte) error {
	r := wire.NewReader(b)
	a.slot, a.status = r.Uvarint(), status(r.Byte())
	switch a.status {
	case statusReady, statusShared:
		a.version = readVersion(&r)
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
