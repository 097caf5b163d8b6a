package transfer

import "sync/atomic"

// Stats counts what an engine did since it began, and has under way.
type Stats struct {
	Flights, Feeds, Streams int // now

	Fetched uint64 // transfers begun
	Failed  uint64 // that ended in an error
	Mapped  uint64 // objects that were mapped instead

	ChunksIn, BytesIn   uint64 // received, verified and stored
	ChunksOut, BytesOut uint64 // handed to the link
	Corrupt             uint64 // chunks whose checksum was wrong

	Struck    uint64 // sources that gave no more
	Resumed   uint64 // conversations that went on after a link broke
	Stalled   uint64 // times that a source stood still
	Redirects uint64 // times that this node went where a source sent it
	Returned  uint64 // and came back from there
	SentOn    uint64 // receivers that this node sent to others
	Shared    uint64 // receivers of the same machine that map the segment
}

type counters struct {
	flights, failed, mapped                                       atomic.Uint64
	chunksIn, bytesIn, chunksOut, bytesOut, corrupt               atomic.Uint64
	struck, resumed, stalled, redirects, returned, sentOn, shared atomic.Uint64
}

func (c *counters) received(n int) {
	c.chunksIn.Add(1)
	c.bytesIn.Add(uint64(n))
}

func (c *counters) gave(n int) {
	c.chunksOut.Add(1)
	c.bytesOut.Add(uint64(n))
}

// Stats returns the counts.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	s := Stats{Flights: len(e.flights), Feeds: len(e.feeds), Streams: len(e.streams)}
	e.mu.Unlock()
	c := &e.counts
	s.Fetched, s.Failed, s.Mapped = c.flights.Load(), c.failed.Load(), c.mapped.Load()
	s.ChunksIn, s.BytesIn, s.ChunksOut, s.BytesOut = c.chunksIn.Load(), c.bytesIn.Load(), c.chunksOut.Load(), c.bytesOut.Load()
	s.Corrupt, s.Struck, s.Resumed, s.Stalled = c.corrupt.Load(), c.struck.Load(), c.resumed.Load(), c.stalled.Load()
	s.Redirects, s.Returned, s.SentOn, s.Shared = c.redirects.Load(), c.returned.Load(), c.sentOn.Load(), c.shared.Load()
	return s
}
