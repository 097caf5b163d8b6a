package transfer

import (
	"errors"

	"github.com/raysys/raysys/internal/objectstore"
)

// landed is one chunk on its way into the store.
type landed struct {
	f      *flight
	d      *feed
	slot   uint64 // of the conversation
	i      int
	memory []byte
	sum    uint32 // that it came with
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
