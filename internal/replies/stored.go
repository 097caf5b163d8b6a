package replies

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// A stored reply is
//
//	format 1 | owner: node, incarnation | until | digest, 8 bytes | status | the result by the codec, or the error
//	format 2 | the same up to status | turn | seq | the result by the codec, or the error
//	format 3 | the same up to status | made | the result by the codec, or the error
//
// The owner is the node whose driver made the call, which alone can make it again; none, and then until says when the
// reply may go, where a task or a grain made it (format 2, with the turn that made it, and the number that the call
// has there), or the call has a key (format 3, with the time at which the call was made; older records have it in
// format 1). A floor is stored as a reply in format 2 whose id is the turn's.
const (
	replyFormat  = 1
	replyOfATurn = 2
	replyToAKey  = 3
)

// What is stored of the outcome of a call. The numbers never change.
const (
	StatusValue byte = 0
	StatusError byte = 1
	StatusGone  byte = 16 // the call has counted, and its outcome is not kept
	statusFloor byte = 17 // no call of the turn up to seq may run
)

// Reply is the outcome of one durable call.
type Reply struct {
	Call    raysys.TaskID
	Owner   core.NodeKey
	Until   int64  // in milliseconds since 1970; 0: for as long as the owner lives
	Digest  uint64 // of the method and the argument
	Status  byte   // StatusValue, StatusError, StatusGone or statusFloor
	Body    []byte
	Pending bool // not committed yet
	Gone    bool // nobody can ask for it: it goes with the next commit
	// Replaces says that the record of an earlier call with the same key is there.
	Replaces bool
	Kind     Kind
	Turn     raysys.TaskID // OfTurn: that made the call, and the id of its floor
	Seq      uint64        // OfTurn: of the call in turn; of a floor: up to where
	Made     int64         // when the turn of the call ended, in milliseconds since 1970
	First    int64         // of a call: when it was first made, by its caller; 0 for not known. It is not stored
	floor    *Reply        // that has been raised because this one goes
	unstored bool          // a floor that is in no commit yet
	folded   bool          // its key is in a block
}

// overhead is about what a reply takes beside its body.
const overhead = 64

// Size is what the reply takes in a commit, beside the key of its record.
func (p *Reply) Size() int { return len(p.Body) + overhead }

// Append appends the record of the reply.
func (p *Reply) Append(dst []byte) []byte {
	format := byte(replyFormat)
	switch p.Kind {
	case OfTurn, floor:
		format = replyOfATurn
	case OfKey:
		format = replyToAKey
	}
	dst = wire.AppendNode(append(dst, format), p.Owner)
	dst = wire.AppendUvarint(dst, uint64(p.Until))
	dst = binary.LittleEndian.AppendUint64(dst, p.Digest)
	dst = append(dst, p.Status)
	switch format {
	case replyOfATurn:
		dst = wire.AppendUvarint(wire.AppendID(dst, p.Turn), p.Seq)
	case replyToAKey:
		dst = wire.AppendUvarint(dst, uint64(p.Made))
	}
	return append(dst, p.Body...)
}

// Read reads what Append wrote.
func Read(s graindir.StoredReply) (*Reply, error) {
	r := wire.NewReader(s.Data)
	format := r.Byte()
	if (format < replyFormat || format > replyToAKey) && r.Err() == nil {
		return nil, fmt.Errorf(
			"%w: the reply to call %s is stored in format %d, and this program knows up to %d: "+
				"it was written by a newer version",
			graindir.ErrUnreadable, s.Call, format, replyToAKey)
	}
	p := &Reply{Call: s.Call, Owner: wire.ReadNode(&r), Until: int64(r.Uvarint()), Digest: r.Uint64(), Status: r.Byte()}
	switch {
	case format == replyOfATurn:
		p.Kind, p.Turn, p.Seq = OfTurn, r.ID(), r.Uvarint()
	case format == replyToAKey:
		p.Kind, p.Made = OfKey, int64(r.Uvarint())
	case p.Owner == (core.NodeKey{}):
		p.Kind = OfKey
	}
	if p.Status == statusFloor {
		p.Kind = floor
	}
	p.Body = r.Rest()
	if err := r.Err(); err != nil || p.Status > StatusError && p.Status != StatusGone && p.Status != statusFloor {
		return nil, fmt.Errorf("%w: the reply to call %s is damaged: status %d: %w", graindir.ErrUnreadable, s.Call, p.Status, wire.ErrCorrupt)
	}
	return p, nil
}

// Owner returns the node whose driver alone can make the call of a stored reply again; owned is false where a task
// or a grain made it, and where the record cannot be read.
func Owner(record []byte) (owner core.NodeKey, owned bool) {
	p, err := Read(graindir.StoredReply{Data: record})
	if err != nil || p.Owner == (core.NodeKey{}) {
		return core.NodeKey{}, false
	}
	return p.Owner, true
}

// CountKeys is how many keys of calls a stored reply has, or a record of the family graindir.SideKeys.
func CountKeys(s graindir.Side) int {
	if s.Family != graindir.SideKeys {
		p, err := Read(graindir.StoredReply{Data: s.Data})
		if err != nil || p.Kind != OfKey {
			return 0
		}
		return 1
	}
	r := wire.NewReader(s.Data)
	if format := r.Byte(); format != keysFormat || s.Name == "" {
		return 0
	}
	r.Uvarint()
	r.Uvarint()
	return r.Len() / 8
}

// Over reports whether the time for which the reply is kept has passed.
func (p *Reply) Over(now time.Time) bool { return p.Until != 0 && now.UnixMilli() > p.Until }
