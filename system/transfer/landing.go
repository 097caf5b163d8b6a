package transfer

import (
	"errors"

	"github.com/raysys/raysys/system/object"
)

// Land says where the body of a chunk goes; nil when nobody wants it any more. It does not block.
func (e *Engine) Land(from Key, head []byte, size int) Landing {
	slot, i, err := readHead(head)
	if err != nil {
		return nil // it is skipped, and asked for again
	}
	d := e.feed(from, slot)
	if d == nil {
		return nil
	}
	return d.flight.landOne(d, i, size)
}

// landed is one chunk on its way into the store.
type landed struct {
	f      *flight
	d      *feed
	i      int
	memory []byte
}

// landOne returns nil as a Landing, not as a pointer, when the chunk is not wanted: because it came already, or is
// coming from elsewhere.
func (f *flight) landOne(d *feed, i, size int) Landing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decided || f.in == nil || i >= len(f.cargo.chunks) || f.cargo.chunks[i].place > asked {
		return nil
	}
	if _, n := f.man.Section(i); n != size {
		return nil
	}
	memory := f.in.Buffer(i)
	if memory == nil {
		return nil
	}
	f.cargo.chunks[i].place = landing
	l := &landed{f, d, i, memory}
	d.landing = l
	d.heardNow()
	return l
}

// Memory implements Landing.
func (l *landed) Memory() []byte { return l.memory }

// Landed implements Landing.
func (l *landed) Landed(err error) {
	f, d, i := l.f, l.d, l.i
	came := err == nil
	if came {
		err = f.in.Filled(i) // in is set, and stays
	} else {
		f.in.Return(i)
	}
	f.mu.Lock()
	if d.landing == l {
		d.landing = nil
	}
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
	var wrong *object.ChunkError
	if errors.As(err, &wrong) {
		d.ready = false // it is asked for nothing more, whenever its goroutine comes to strike it off
	}
	whole := f.cargo.left == 0
	f.mu.Unlock()
	d.heardNow()
	switch {
	case err == nil && whole:
		f.e.counts.received(len(l.memory))
		f.arrived(f.in.Object(), f.in.Manifest().Version)
	case err == nil:
		f.e.counts.received(len(l.memory))
		f.pump(d)
		if by != nil && by != d {
			f.pump(by)
		}
	case wrong != nil:
		f.e.counts.corrupt.Add(1)
		d.tell(func(in *inbox) { in.wrong = err })
		f.pumpAll()
	case came: // and the store could not keep it
		f.decide(nil, err)
	default: // its link broke, or the memory was wanted for the same chunk from elsewhere
		f.pumpAll()
	}
}
