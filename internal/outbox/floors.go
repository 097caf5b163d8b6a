package outbox

import (
	"cmp"
	"container/list"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// Sent says which message a call delivers: From is the id of its sender, a hash.
type Sent struct {
	From           raysys.TaskID
	Number, Before uint64
}

// MaxSenders is how many senders a durable grain knows. Beyond that the one which has been silent for longest is
// forgotten: where a message of it that has arrived comes once more, it counts again.
const MaxSenders = 16384

// Floors are what a durable grain has taken of messages: for each sender the number of the last. The grain's lock
// guards them. A floor is stored with the turn of its message, so none counts twice:
//
//	number <= floor            the message has arrived before, and its call is not run
//	floor < before             one that stands before it has not arrived, or is not known any more: the sender goes
//	                           back to the first that has not, before which there is none
//
// A stored floor is, under the sender's id
//
//	version 1 | number | when it was raised, in milliseconds since 1970
type Floors struct {
	by     map[raysys.TaskID]*list.Element
	silent *list.List // *floor; nil while there is none, the longest silent first
}

type floor struct {
	from   raysys.TaskID
	number uint64
	at     int64
}

const floorVersion = 1

// Verdict is what becomes of a message that has come.
type Verdict uint8

// The verdicts.
const (
	Runs Verdict = iota
	Done
	TooEarly
)

// Judge says what becomes of a message.
func (f *Floors) Judge(s *Sent) Verdict {
	e := f.by[s.From]
	switch {
	case e == nil && s.Before != 0:
		return TooEarly
	case e == nil:
		return Runs
	case s.Number <= e.Value.(*floor).number:
		return Done
	case e.Value.(*floor).number < s.Before:
		return TooEarly
	}
	return Runs
}

// Raise notes a message whose turn has ended.
func (f *Floors) Raise(s *Sent, now time.Time) { f.raise(s.From, s.Number, now.UnixMilli()) }

func (f *Floors) raise(from raysys.TaskID, number uint64, at int64) {
	if e := f.by[from]; e != nil {
		l := e.Value.(*floor)
		l.number, l.at = max(l.number, number), at
		f.silent.MoveToBack(e)
		return
	}
	if f.by == nil {
		f.by, f.silent = map[raysys.TaskID]*list.Element{}, list.New()
	}
	f.by[from] = f.silent.PushBack(&floor{from, number, at})
}

func floorName(from raysys.TaskID) string { return string(wire.AppendID(nil, from)) }

// Store appends to a commit what it stores of a message that its turns have taken.
func Store(sides []graindir.Side, s *Sent, now time.Time) []graindir.Side {
	data := binary.AppendUvarint(binary.AppendUvarint([]byte{floorVersion}, s.Number), uint64(now.UnixMilli()))
	side := graindir.Side{Family: graindir.SideFloors, Name: floorName(s.From), Data: data}
	for i := range sides {
		if sides[i].Family == side.Family && sides[i].Name == side.Name {
			sides[i] = side // a later turn of the same commit
			return sides
		}
	}
	return append(sides, side)
}

// Forget appends to a commit up to limit senders beyond MaxSenders, and forgets them.
func (f *Floors) Forget(sides []graindir.Side, limit int) []graindir.Side {
	for ; len(f.by) > MaxSenders && limit > 0; limit-- {
		l := f.silent.Remove(f.silent.Front()).(*floor)
		delete(f.by, l.from)
		sides = append(sides, graindir.Side{Family: graindir.SideFloors, Name: floorName(l.from)})
	}
	return sides
}

// ReadFloors reads what is stored, which has been silent for the longest first.
func ReadFloors(sides []graindir.Side) (f Floors, err error) {
	var read []floor
	for _, s := range sides {
		if s.Family != graindir.SideFloors {
			continue
		}
		r, name := wire.NewReader(s.Data), wire.NewReader([]byte(s.Name))
		if v := r.Byte(); v != floorVersion && r.Err() == nil {
			return f, fmt.Errorf(
				"%w: what it has taken of messages of %x is stored in version %d, and this program knows version %d: "+
					"it was written by a newer one",
				graindir.ErrUnreadable, s.Name, v, floorVersion)
		}
		l := floor{name.ID(), r.Uvarint(), int64(r.Uvarint())}
		if r.Err() != nil || name.Err() != nil || name.Len() > 0 {
			return f, fmt.Errorf(
				"%w: what it has taken of messages of %x is damaged: %w",
				graindir.ErrUnreadable, s.Name, wire.ErrCorrupt)
		}
		read = append(read, l)
	}
	slices.SortFunc(read, func(a, b floor) int { return cmp.Compare(a.at, b.at) })
	for _, l := range read {
		f.raise(l.from, l.number, l.at)
	}
	return f, nil
}
