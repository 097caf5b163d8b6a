package grainengine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// MaxReply is the most that the result of a durable call holds, encoded: grains.MaxReply.
const MaxReply = 64 << 10

// A stored reply is
//
//	format 1 | owner: node, incarnation | until | digest, 8 bytes | status | the result by the codec, or the error
//	format 2 | the same up to status | turn | seq | the result by the codec, or the error
//
// The owner is the node whose driver made the call, which alone can make it again; none, and then until says when the
// reply may go, where a task or a grain made it (format 2, with the turn that made it, and the number that the call has there),
// or the call has a key. A floor is stored as a reply in format 2 whose id is the turn's.
const (
	replyFormat  = 1
	replyOfATurn = 2
)

// What is stored in place of the outcome of a call, beside statusValue and statusError.
const (
	statusGone  byte = 16 + iota // the call has counted, and its outcome is not kept
	statusFloor                  // no call of the turn up to seq may run
)

// reply is the outcome of one durable call.
type reply struct {
	call    raysys.TaskID
	owner   core.NodeKey
	until   int64  // in milliseconds since 1970; 0: for as long as the owner lives
	digest  uint64 // of the method and the argument
	status  byte   // statusValue, statusError, statusGone or statusFloor
	body    []byte
	pending bool // not committed yet
	gone    bool // nobody can ask for it: it goes with the next commit
	// replaces says that the record of an earlier call with the same key is there.
	replaces bool
	kind     replyKind
	turn     raysys.TaskID // ofTurn: that made the call, and the id of its floor
	seq      uint64        // ofTurn: of the call in turn; of a floor: up to where
	floor    *reply        // that has been raised because this one goes
	unstored bool          // a floor that is in no commit yet
}

// replyOverhead is about what a reply takes beside its body.
const replyOverhead = 64

func (p *reply) size() int { return len(p.body) + replyOverhead }

func (p *reply) append(dst []byte) []byte {
	format := byte(replyFormat)
	if p.kind == ofTurn || p.kind == aFloor {
		format = replyOfATurn
	}
	dst = wire.AppendNode(append(dst, format), p.owner)
	dst = wire.AppendUvarint(dst, uint64(p.until))
	dst = binary.LittleEndian.AppendUint64(dst, p.digest)
	dst = append(dst, p.status)
	if format == replyOfATurn {
		dst = wire.AppendUvarint(wire.AppendID(dst, p.turn), p.seq)
	}
	return append(dst, p.body...)
}

func readReply(s graindir.StoredReply) (*reply, error) {
	r := wire.NewReader(s.Data)
	format := r.Byte()
	if format != replyFormat && format != replyOfATurn && r.Err() == nil {
		return nil, fmt.Errorf("%w: the reply to call %s is stored in format %d, and this program knows up to %d: it was written by a newer version", graindir.ErrUnreadable, s.Call, format, replyOfATurn)
	}
	p := &reply{call: s.Call, owner: wire.ReadNode(&r), until: int64(r.Uvarint()), digest: r.Uint64(), status: r.Byte()}
	switch {
	case format == replyOfATurn:
		p.kind, p.turn, p.seq = ofTurn, r.ID(), r.Uvarint()
	case p.owner == (core.NodeKey{}):
		p.kind = ofKey
	}
	if p.status == statusFloor {
		p.kind = aFloor
	}
	p.body = r.Rest()
	if err := r.Err(); err != nil || p.status > statusError && p.status != statusGone && p.status != statusFloor {
		return nil, fmt.Errorf("%w: the reply to call %s is damaged: status %d: %w", graindir.ErrUnreadable, s.Call, p.status, wire.ErrCorrupt)
	}
	return p, nil
}

// ReplyOwner returns the node whose driver alone can make the call of a stored reply again; owned is false where a task
// or a grain made it, and where the record cannot be read.
func ReplyOwner(record []byte) (owner core.NodeKey, owned bool) {
	p, err := readReply(graindir.StoredReply{Data: record})
	if err != nil || p.owner == (core.NodeKey{}) {
		return core.NodeKey{}, false
	}
	return p.owner, true
}

// over reports whether the time for which the reply is kept has passed.
func (p *reply) over(now time.Time) bool { return p.until != 0 && now.UnixMilli() > p.until }
