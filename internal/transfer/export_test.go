package transfer

import (
	"encoding/binary"
	"errors"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// What the tests of the wire format need of the inside.

// Given counts the objects whose receivers are remembered.
func (e *Engine) Given() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.given)
}

// Frames returns one of each frame and answer, as this version writes them.
func Frames() map[string][]byte {
	v := objectstore.Version{Attempt: 3, Size: 1<<20 + 5, Sum: 0xfeedfacecafebeef}
	v.ID.Hi, v.ID.Lo = 1<<60, 7
	man := objectstore.Manifest{Version: v, Chunks: []uint32{0x01020304, 0xffffffff}}
	nodes := []core.NodeKey{{Node: "n1", Incarnation: 1 << 60}, {Node: "n2", Incarnation: 2}}
	pull := pull{slot: 300, want: v, flags: pullKnown | pullSent, host: "boot/1000/pid:[1]", failed: []failure{{nodes[0], codeGone}, {nodes[1], codeLacks}}}
	bare, wanting := v, pull
	bare.Sum, wanting.flags = 0, pullSums
	shared := appendShared(nil, shared{PID: 77, FD: 5, Device: 3, Inode: 1 << 40, Capacity: 2 << 20})
	return map[string][]byte{
		"pull":      pull.append(nil),
		"ready":     (&pulled{slot: 300, man: man}).append(nil),
		"later":     (&pulled{slot: 300, man: objectstore.Manifest{Version: bare}, later: true, mark: 0x1122334455667788}).append(nil),
		"marked":    (&pulled{slot: 300, man: man, mark: 0x1122334455667788}).append(nil),
		"pullsums":  wanting.append(nil),
		"chunksum":  binary.LittleEndian.AppendUint32(appendHead(nil, 300, 1000), 0x01020304),
		"known":     (&pulled{slot: 300, man: man, known: true}).append(nil),
		"shared":    (&pulled{slot: 300, status: statusShared, man: man, shared: shared}).append(nil),
		"elsewhere": (&pulled{slot: 300, status: statusElsewhere, nodes: nodes, sent: true}).append(nil),
		"refused":   (&pulled{slot: 300, status: statusRefused, code: codeVersion, text: "another"}).append(nil),
		"ask":       appendAsk(nil, 300, []span{{0, 8}, {1000, 1}}),
		"chunk":     appendHead(nil, 300, 1000),
		"end":       appendEnd(nil, 300, true),
	}
}

// Again reads a frame of that name and writes it again.
func Again(name string, b []byte) ([]byte, error) {
	switch name {
	case "pull", "pullsums":
		var p pull
		err := p.read(b)
		return p.append(nil), err
	case "ask":
		slot, spans, err := readAsk(b)
		return appendAsk(nil, slot, spans), err
	case "chunk":
		slot, i, _, err := readHead(b)
		return appendHead(nil, slot, i), err
	case "chunksum":
		slot, i, rest, err := readHead(b)
		sum := readSum(&rest)
		return binary.LittleEndian.AppendUint32(appendHead(nil, slot, i), sum), errors.Join(err, rest.Err())
	case "end":
		slot, whole, err := readEnd(b)
		return appendEnd(nil, slot, whole), err
	}
	var a pulled
	err := a.read(b)
	if err == nil && a.status == statusShared {
		s, err := readShared(a.shared)
		if err != nil {
			return nil, err
		}
		a.shared = appendShared(nil, s)
	}
	return a.append(nil), err
}

// Older returns a pull as a version wrote it that knew no sums beside chunks.
func Older(b []byte) []byte {
	var p pull
	if p.read(b) != nil {
		panic("not a pull")
	}
	p.flags &^= pullSums
	return p.append(nil)
}

// WithSums is a pull that takes sums with the chunks, whatever it said.
func WithSums(b []byte) []byte {
	var p pull
	if p.read(b) != nil {
		panic("not a pull")
	}
	p.flags |= pullSums
	p.want.Sum = 0
	return p.append(nil)
}
