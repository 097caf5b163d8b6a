package link

import (
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/wire"
)

// Stats counts what went over a session since it began.
type Stats struct {
	In, Out [wire.Bulk + 1]Traffic // by class; Control includes the link's own frames in bytes
	Unknown uint64                 // frames of kinds without a handler, which were skipped
}

// Traffic is one class, one way. Bytes are those of frames with their headers.
type Traffic struct{ Frames, Bytes uint64 }

type traffic struct{ frames, bytes atomic.Uint64 }

// counters are wait-free, and written once per write or read rather than per frame.
type counters struct {
	in, out [wire.Bulk + 1]traffic
	unknown atomic.Uint64
}

func (c *counters) sent(class wire.Class, frames, bytes int) {
	c.out[class].frames.Add(uint64(frames))
	c.out[class].bytes.Add(uint64(bytes))
}

func (c *counters) received(class wire.Class, frames, bytes int) {
	c.in[class].frames.Add(uint64(frames))
	c.in[class].bytes.Add(uint64(bytes))
}

func (t *traffic) read() Traffic { return Traffic{t.frames.Load(), t.bytes.Load()} }

func (c *counters) read() (s Stats) {
	for i := range c.in {
		s.In[i], s.Out[i] = c.in[i].read(), c.out[i].read()
	}
	s.Unknown = c.unknown.Load()
	return s
}

// Stats returns the session's counts.
func (p *Peer) Stats() Stats { return p.counts.read() }

// RoundTrip is how long the last ping took there and back; zero before the first.
func (p *Peer) RoundTrip() time.Duration { return time.Duration(p.trip.Load()) }
