package transfer

import (
	"errors"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// Land returns the place for the body of a chunk; nil when the chunk is not wanted any more. It does not block.
func (e *Engine) Land(from core.NodeKey, head []byte, size int) Landing {
	slot, i, sum, err := readHead(head)
	if err != nil {
		return nil // it is skipped, and asked for again
	}
	d := e.feed(from, slot)
	if d == nil {
		return nil
	}
	return d.flight.landOne(d, slot, i, size, sum)
}

// landed is one chunk on its way into the store.
type landed struct {
	f      *flight
	d      *feed
	slot   uint64 // of the conversation
	i      int
	memory []byte
	sum    uint32 // that it came with
}

// landOne returns nil as a Landing, not as a pointer, when the chunk is not wanted: because it came already, or is
// coming from elsewhere, or the conversation has ended since.
func (f *flight) landOne(d *feed, slot uint64, i, size int, sum uint32) Landing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.peer == nil || d.slot != slot || f.decided || f.in == nil || i >= len(f.cargo.chunks) || f.cargo.chunks[i].place > asked {
		return nil
	}
	if _, n := f.version.Section(i); n != size {
		return nil
	}
	memory := f.in.Buffer(i)
	if memory == nil {
		return nil
	}
	f.cargo.chunks[i].place = landing
	l := &landed{f, d, slot, i, memory, sum}
	d.landing = l
	f.crew.Add(1) // the flight ends after all its landings
	d.heardNow()
	return l
}

// Memory implements Landing.
func (l *landed) Memory() []byte { return l.memory }

// Landed implements Landing.
func (l *landed) Landed(err error) {
	f, d := l.f, l.d
	d.heardNow()
	f.mu.Lock()
	if d.landing == l {
		d.landing = nil
	}
	f.mu.Unlock()
	if err == nil && f.in.Form() == objectstore.Disk {
		select {
		case f.e.came <- l: // the reader goes on with the next
			return
		default:
		}
	}
	l.settle(err)
}

// settle stores a chunk that has arrived, if it is the right one, and else opens it again.
func (l *landed) settle(err error) {
	f, d, i := l.f, l.d, l.i
	defer f.crew.Done()
	came := err == nil
	if came {
		err = f.in.Filled(i, l.sum) // f.in is set, and stays
	} else {
		f.in.Return(i)
	}
	f.mu.Lock()
	by := f.cargo.chunks[i].by
	if err == nil {
		f.cargo.discharge(i)
		f.cargo.chunks[i].place = stored
		f.cargo.left--
		d.slow, d.stalls = false, 0
		d.got++
	} else {
		f.cargo.reopen(i)
	}
	var wrong *objectstore.ChunkError
	current := d.peer != nil && d.slot == l.slot
	if errors.As(err, &wrong) && current {
		d.ready = false // it is asked for nothing more, whenever its goroutine comes to strike it off
	}
	whole := f.cargo.left == 0
	f.mu.Unlock()
	switch {
	case err == nil && whole:
		f.e.counts.received(len(l.memory))
		f.arrived(f.in.Object(), f.in.Version())
	case err == nil:
		f.e.counts.received(len(l.memory))
		f.pump(d)
		if by != nil && by != d {
			f.pump(by)
		}
	case wrong != nil:
		f.e.counts.corrupt.Add(1)
		if current { // else it is talking to another source by now
			d.tell(func(in *inbox) { in.wrong = err })
		}
		f.pumpAll()
	case came: // and the store could not keep it
		f.decide(nil, err)
	default: // its link broke, or the memory was wanted for the same chunk from elsewhere
		f.pumpAll()
	}
}

const (
	verifiers = 2
	maxCame   = 32 // chunks that wait for them
)

// verify settles what has come and goes to a disk, until Close: other frames do not wait for the disk. What goes to
// memory is verified by the reader that brought it, which has it in its cache.
func (e *Engine) verify() {
	for l := range e.came {
		l.settle(nil)
	}
}
