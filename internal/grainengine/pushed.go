package grainengine

import "slices"

// maxPushed bounds the bytes of arguments that came before the heads of their calls, of one peer. Heads overtake most arguments.
const maxPushed = 8 << 20

// pushed joins the heads of calls of one peer with the arguments that it pushed, which come over another connection. peer.mu guards it.
//
//	the head first       due ──► the argument: to the call, if that still waits
//	the argument first   early ──► the head takes it, or asks again for one that was dropped for want of room
type pushed struct {
	early map[uint64][]byte // nil for one that was dropped
	bytes int               // of early
	due   map[uint64]struct{}
}

// head is called once with the number of each call whose argument was pushed, also where the call itself will not come. Either it
// returns the argument, or that is due; asks says that it has to be asked for.
func (b *pushed) head(slot uint64) (argument []byte, asks bool) {
	argument, came := b.early[slot]
	if came {
		delete(b.early, slot)
		b.bytes -= len(argument)
		return argument, argument == nil
	}
	if b.due == nil {
		b.due = map[uint64]struct{}{}
	}
	b.due[slot] = struct{}{}
	return nil, false
}

// argument is called with each that comes and that no call waits for.
func (b *pushed) argument(slot uint64, argument []byte) {
	if b.arrived(slot) {
		return // its call has ended
	}
	if b.early == nil {
		b.early = map[uint64][]byte{}
	}
	if b.bytes+len(argument) > maxPushed {
		b.early[slot] = nil
		return
	}
	b.early[slot] = slices.Clone(argument) // the frame is the link's
	b.bytes += len(argument)
}

// arrived reports whether the argument was due.
func (b *pushed) arrived(slot uint64) bool {
	_, due := b.due[slot]
	delete(b.due, slot)
	return due
}
