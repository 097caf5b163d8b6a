package groupengine

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// Verb is what a leader has a node do. The numbers are on the wire.
type Verb byte

const (
	// Prepare takes the room of the bundles, of all or of none.
	Prepare Verb = 1
	// Hold says that the log has them as held.
	Hold Verb = 2
	// Drop gives the room of an attempt back that was not to be.
	Drop Verb = 3
	// Release cancels what runs in the group. It is answered when the room of all its bundles is free.
	Release Verb = 4
	// MakeRoom says that work which needs as much as the bundles waits elsewhere: idle grains are to give up what is missing for as many of
	// them as can be. It promises nothing.
	MakeRoom Verb = 5
	// MakeRoomForAll is the same for all of them or none.
	MakeRoomForAll Verb = 6
	// Gather has the node keep what becomes free for these bundles. It keeps it until Prepare comes for the same attempt, or until no Gather has come
	// for GatherLease. The answer comes when there is room for all bundles. A Gather without bundles ends an earlier one.
	Gather Verb = 7
)

// Ask is what a leader has a node do with bundles of one group.
type Ask struct {
	Verb    Verb
	Group   string // key of the record; "" where it is for work that is in no group
	ID      core.TaskID
	Attempt uint64
	Bundles []Asked // Prepare, MakeRoom, Gather
	Made    int64   // Gather: that of the record
}

// Asked is one bundle of an Ask.
type Asked struct {
	Index int
	Needs raysys.Resources
}

// needs is what the bundles ask for, as a ledger has it.
func (a *Ask) needs() (list []ledger.Need) {
	for _, b := range a.Bundles {
		list = append(list, ledger.Of(core.Resources(b.Needs)))
	}
	return list
}

// Append appends the question to a frame.
func (a *Ask) Append(dst []byte) []byte {
	dst = wire.AppendID(wire.AppendBytes(append(dst, byte(a.Verb)), a.Group), a.ID)
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, a.Attempt), uint64(len(a.Bundles)))
	for _, b := range a.Bundles {
		dst = appendNeeds(wire.AppendUvarint(dst, uint64(b.Index)), b.Needs)
	}
	if a.Verb == Gather {
		dst = wire.AppendUvarint(dst, uint64(a.Made))
	}
	return dst
}

// ReadAsk reads a question. An error means that the frame breaks the protocol.
func ReadAsk(r *wire.Reader) (a Ask, err error) {
	a = Ask{Verb: Verb(r.Byte()), Group: r.String(), ID: r.ID(), Attempt: r.Uvarint()}
	n := r.Count(2)
	if r.Err() == nil && (a.Verb < Prepare || a.Verb > Gather || n > MaxBundles || a.Verb != MakeRoom && a.Verb != MakeRoomForAll && !IsKey(a.Group)) {
		return a, fmt.Errorf("%w: a leader asks %d of %d bundles of %.64q", wire.ErrCorrupt, a.Verb, n, a.Group)
	}
	for range n {
		b := Asked{Index: int(r.Uint32())}
		if b.Needs, err = readNeeds(r); err != nil {
			return a, err
		}
		if b.Index >= MaxBundles {
			return a, fmt.Errorf("%w: bundle %d", wire.ErrCorrupt, b.Index)
		}
		a.Bundles = append(a.Bundles, b)
	}
	if a.Verb == Gather {
		a.Made = int64(r.Uvarint())
	}
	return a, r.Err()
}
