package grainengine

import (
	"sync"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// The frames between grain engines. Whatever follows the fields known here is skipped, so that later versions may add
// to the end (rule C4); the frames of this version are in testdata.
//
//	KindCall        flags slot scope method key token left seq | argument
//	                flags slot scope method key token left seq callkey | argument    when flagKeyed is set
//	                flags slot | argument                        when flagBody is set
//	KindCallResult  slot status | value, error or place
//	KindCallCancel  slot
//	KindCallForget  method key id, of each call; a zero id ends the answer to a KindCallAsk
//	KindCallAsk     method key count | id, of each call

// Flags of a call.
const (
	flagReadOnly uint32 = 1 << iota
	flagReentrant
	flagExact  // the deadline was chosen by the program, so it is kept to the microsecond
	flagLarge  // the argument comes in a frame of its own, when it is asked for or with flagPushed
	flagBody   // this is that frame
	flagOfTurn // of a durable kind: a task or a grain made the call, and may make it again on another node
	flagKeyed  // the program gave the call a key
	flagBound  // the call says where its grain is to be, which holds resources
	flagSeeks  // of a stateless kind: a node without room for a worker may refuse it, and name one that has
	flagPushed // with flagLarge: the argument is on its way, and need not be asked for
)

// Outcomes of a call.
const (
	statusValue byte = iota
	statusError
	statusMoved // it did not run; the grain, or room for a worker, is at the place that follows, or nowhere known
	statusWant  // send the argument; the outcome follows later
)

// callHead is a KindCall without its argument.
type callHead struct {
	flags  uint32
	slot   uint64 // the caller's number for the call
	scope  uint32 // the caller's turn
	method uint32 // as the target numbers it
	to     string // the key, when it is sent
	key    []byte // the same, when it was read: the frame's own
	token  graindir.Token
	left   uint64 // nanoseconds until the deadline, 0 for none
	seq    uint64 // of the submission in its turn: the call's id
	named  string // the program's key for the call, with flagKeyed
}

func (h *callHead) append(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, uint64(h.flags))
	dst = wire.AppendUvarint(dst, h.slot)
	if h.flags&flagBody != 0 {
		return dst
	}
	dst = wire.AppendUvarint(dst, uint64(h.scope))
	dst = wire.AppendUvarint(dst, uint64(h.method))
	dst = wire.AppendBytes(dst, h.to)
	dst = wire.AppendStamp(dst, h.token)
	dst = wire.AppendUvarint(dst, h.left)
	dst = wire.AppendUvarint(dst, h.seq)
	if h.flags&flagKeyed != 0 {
		dst = wire.AppendBytes(dst, h.named)
	}
	return dst
}

func (h *callHead) read(r *wire.Reader) error {
	h.flags, h.slot = r.Uint32(), r.Uvarint()
	if h.flags&flagBody != 0 {
		return r.Err()
	}
	h.scope, h.method, h.key = r.Uint32(), r.Uint32(), r.Bytes()
	h.token = wire.ReadStamp[graindir.Token](r)
	h.left, h.seq = r.Uvarint(), r.Uvarint()
	if h.flags&flagKeyed != 0 {
		h.named = r.String()
	}
	return r.Err()
}

func appendPlace(dst []byte, p graindir.Place) []byte {
	return wire.AppendStamp(wire.AppendNode(dst, p.NodeKey), p.Token)
}

func readPlace(r *wire.Reader) graindir.Place {
	at := wire.ReadNode(r)
	return graindir.Place{NodeKey: at, Token: wire.ReadStamp[graindir.Token](r)}
}

// appendAnswer begins a KindCallResult.
func appendAnswer(dst []byte, slot uint64, status byte) []byte {
	return append(wire.AppendUvarint(dst, slot), status)
}

// buffers are used again for frames that were sent: Peer.Send copies what it is given.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// keptBuffer is the size above which a buffer is left to the garbage collector.
const keptBuffer = 64 << 10

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= keptBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}
