package transfer

import (
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
	v := objectstore.Version{Attempt: 3, Size: 1<<20 + 5, Nonce: 0xfeedfacecafebeef}
	v.ID.Hi, v.ID.Lo = 1<<60, 7
	nodes := []core.NodeKey{{Node: "n1", Incarnation: 1 << 60}, {Node: "n2", Incarnation: 2}}
	pull := pull{slot: 300, want: v, sent: true, host: "boot/1000/pid:[1]", failed: []failure{{nodes[0], codeGone}, {nodes[1], codeLacks}}}
	shared := appendShared(nil, shared{PID: 77, FD: 5, Device: 3, Inode: 1 << 40, Capacity: 2 << 20, Sums: []uint32{0x01020304, 0xffffffff}})
	return map[string][]byte{
		"pull":      pull.append(nil),
		"ready":     (&pulled{slot: 300, version: v}).append(nil),
		"shared":    (&pulled{slot: 300, status: statusShared, version: v, shared: shared}).append(nil),
		"elsewhere": (&pulled{slot: 300, status: statusElsewhere, nodes: nodes, sent: true}).append(nil),
		"refused":   (&pulled{slot: 300, status: statusRefused, code: codeVersion, text: "another"}).append(nil),
		"ask":       appendAsk(nil, 300, []span{{0, 8}, {1000, 1}}),
		"chunk":     appendHead(nil, 300, 1000, 0x01020304),
		"end":       appendEnd(nil, 300, true),
	}
}

// Again reads a frame of that name and writes it again.
func Again(name string, b []byte) ([]byte, error) {
	switch name {
	case "pull":
		var p pull
		err := p.read(b)
		return p.append(nil), err
	case "ask":
		slot, spans, err := readAsk(b)
		return appendAsk(nil, slot, spans), err
	case "chunk":
		slot, i, sum, err := readHead(b)
		return appendHead(nil, slot, i, sum), err
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
