package link

import (
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// Peer is one session with one incarnation of another node.
type Peer struct {
	link *Link
	slot *slot
	conn net.Conn
	try  tryWriter // nil where a write cannot be told not to wait
	id   Identity
	peerOf
	pings

	maxFrame int // what both sides bear
	maxBulk  int

	heard   atomic.Int64 // when the last byte came
	silent  atomic.Bool  // Suspect was called
	over    atomic.Bool  // no handler is called any more
	reading atomic.Bool  // the reader is handing out frames, and will write the queue afterwards
	corks   atomic.Int32 // goroutines that will write the queue in a moment
	trip    atomic.Int64 // of the last ping, there and back
	counts  counters

	missed   [wire.Bulk + 1]uint64 // frames found lost; of the reader of the express connection, and of bulk's
	readDone chan struct{}         // closed when the reader has ended
	wrote    chan struct{}         // closed when the writer has ended
	done     chan struct{}         // closed when Down has returned
	bulk     bulk

	mu       sync.Mutex // guards the rest
	cond     *sync.Cond // of the writer: there is something to write, or it is over
	sleeping bool       // the writer waits on cond
	writing  bool       // a goroutine writes: it owns rest and taken
	torn     error      // a write failed; the reader ends the session
	down     bool
	cause    error  // why it is down
	refusal  error  // what Send returns then
	bye      string // told to the other side; empty to break off at once
	out      [classes]outQueue
	in       [classes]inWindow
	owed     owed
	held     [classes][]byte // frame that Chaos wants behind the next
	free     []*chunk
	own      []byte // buffer for the link's own frames
	scratch  []byte // buffer that small pieces are joined in
	pieces   [][]byte
	rest     net.Buffers         // what is being written
	taken    []*chunk            // what rest lies in
	chain    []*x509.Certificate // what the node proved its name with, its own first; nil on a plain connection
}

// peerOf is how a session came about.
type peerOf struct {
	session uint64
	order   uint64
	dialed  bool     // by this node
	redial  dialFunc // opens another connection the same way
	relayed bool
	proved  bool // both sides know Config.Secret, and a bulk connection has to prove it too
}

func newPeer(l *Link, s *slot, conn net.Conn, h *hello, of peerOf) *Peer {
	p := &Peer{
		link: l, slot: s, conn: conn, id: h.id, chain: chainOf(conn), peerOf: of, try: asTryWriter(conn),
		maxFrame: int(min(uint64(l.cfg.MaxFrame), h.maxFrame)),
		maxBulk:  int(min(uint64(l.cfg.MaxBulk), h.maxBulk)),
		readDone: make(chan struct{}), wrote: make(chan struct{}), done: make(chan struct{}),
	}
	p.cond = sync.NewCond(&p.mu)
	p.heard.Store(l.now())
	for c := range classes {
		p.out[c].credit = int64(min(h.window[c], 1<<40))
		p.out[c].bound = l.cfg.Queue[c]
		p.in[c].size = int64(l.cfg.Window[c])
		p.in[c].allowed = p.in[c].size
	}
	p.bulk.init(p)
	return p
}

// start begins to read and write. The link has counted both goroutines.
func (p *Peer) start() {
	go p.write()
	go p.live()
}

// live reads until it is over, and tells the user.
func (p *Peer) live() {
	defer p.link.running.Done()
	err := p.read()
	if err != nil {
		p.mu.Lock()
		if p.torn != nil && !errors.Is(err, ErrLeft) {
			err = p.torn
		}
		p.mu.Unlock()
		p.fail(p.doubt(err))
	}
	close(p.readDone)
	p.bulk.end() // the goroutine that ended the session may not have done it yet
	p.bulk.waitForHandlers()
	if p.link.cfg.Down != nil {
		p.link.cfg.Down(p, p.Err())
	}
	p.link.left(p)
}

// doubt keeps the end of a relayed connection from passing for the end of a process, which only a direct one shows.
func (of *peerOf) doubt(err error) error {
	if of.relayed && errors.Is(err, ErrReset) {
		return fmt.Errorf("%w: the relayed connection ended: %v", ErrUnreachable, err)
	}
	return err
}

// Node is the peer's name.
func (p *Peer) Node() raysys.NodeID { return p.id.Node }

// Identity is what the peer said of itself.
func (p *Peer) Identity() Identity { return p.id }

// Chain are the certificates that the node proved its name with last, its own first; nil on a plain connection.
func (p *Peer) Chain() []*x509.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chain
}

// Proved notes that the node has shown other certificates since the session began, see TLS.Ask.
func (p *Peer) Proved(chain []*x509.Certificate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chain = chain
}

// Relayed reports whether frames go through a third node.
func (p *Peer) Relayed() bool { return p.relayed }

// Done is closed when the peer is down and Down has returned.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err is why the peer is down; nil while it is up.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

func (p *Peer) String() string { return fmt.Sprintf("%s(%d)", p.id.Node, p.id.Incarnation) }

// Close ends the session: it is down at once, and the other side gets the reason behind the queued frames. It waits
// for nothing; Done tells when Down has returned.
func (p *Peer) Close(reason error) {
	if reason == nil {
		reason = ErrClosed
	}
	p.end(reason, reason.Error())
}

// fail ends the session because of what the connection, or what came over it, did. Where the other side can still be
// told, it is.
func (p *Peer) fail(err error) {
	bye := ""
	if isViolation(err) {
		bye = err.Error()
	}
	p.end(err, bye)
}

// end is how every session ends; the first cause stays. An empty bye breaks the connection off.
func (p *Peer) end(cause error, bye string) {
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.down, p.cause, p.bye = true, cause, bye
	p.refusal = fmt.Errorf("send to %s: %w: %w", p, raysys.ErrNotDelivered, cause)
	p.over.Store(true)
	p.cond.Broadcast()
	p.mu.Unlock()
	p.link.leave(p)
	p.link.routes.gone(p)
	if bye == "" {
		p.conn.Close()
	} else {
		now := time.Now()
		p.conn.SetReadDeadline(now) // the reader ends now; the writer reads the rest
		p.conn.SetWriteDeadline(now.Add(p.link.cfg.Linger))
	}
	p.bulk.end()
}

// breakOff gives up on the last bytes of a session that is over.
func (p *Peer) breakOff() { p.conn.Close() }

func (p *Peer) ping(stalled bool) {
	if stalled {
		p.heard.Store(p.link.now())
	}
	p.mu.Lock()
	p.owed.ping, p.owed.any = true, true
	p.emitHeld()
	p.poke()
	p.mu.Unlock()
	p.bulk.sendCount()
	if suspect := p.link.cfg.Suspect; suspect != nil {
		if silent := p.Silence() >= p.link.cfg.SuspectAfter; silent != p.silent.Load() {
			p.silent.Store(silent)
			suspect(p, silent)
		}
	}
}

// Silence is how long ago the last byte came from the peer. It counts time in which this process ran: after a pause of
// its own it begins anew.
func (p *Peer) Silence() time.Duration {
	return time.Duration(max(0, p.link.now()-p.heard.Load()))
}

// SendBody queues a frame whose body goes straight from where it lies into the memory that the peer's Sink gives. head
// may be used again when it returns. Together they may have MaxBulk bytes, less one. Otherwise it is like SendBulk.
// After an error Release is not called.
func (p *Peer) SendBody(kind wire.Kind, head []byte, body Body) error {
	if kind < wire.FirstKind {
		return fmt.Errorf("send body to %s: kind %d is not for users", p, kind)
	}
	size := body.size()
	if len(head) > MaxHead || size < 0 || size > p.maxBulk-1-len(head) {
		return fmt.Errorf("send body to %s: %w: a head of %d bytes (the limit is %d) and a body of %d (with its head %d)",
			p, raysys.ErrTooLarge, len(head), MaxHead, size, p.maxBulk-1)
	}
	f := bulkFrame{kind: kind, apart: true, headLen: len(head), body: body, size: 1 + len(head) + size}
	copy(f.head[:], head)
	return p.bulk.send(&f)
}

// Abandon takes back the memory of a Landing of this peer whose body may be on its way: when it returns, Landed has
// returned and the memory is not touched any more. It does not wait for the peer, which may be silent: the reader goes
// on without the memory. It must not be called from Landed or a Sink, nor with a lock that they take.
func (p *Peer) Abandon(l Landing) { p.bulk.abandon(l) }

// SendBulk queues a frame of up to MaxBulk bytes for the bulk connection; payload passes to the link. It has no order
// with Send, and its handler runs beside those of the express connection. The errors are those of Send; a bulk
// connection that breaks, or cannot be made, ends the session.
func (p *Peer) SendBulk(kind wire.Kind, payload []byte) error {
	return p.SendFrame(kind, payload, nil)
}

// SendFrame is SendBulk; written, unless it is nil, is called with payload when the link reads that no more, or never where the session
// ends before.
func (p *Peer) SendFrame(kind wire.Kind, payload []byte, written func([]byte)) error {
	if kind < wire.FirstKind {
		return fmt.Errorf("send bulk to %s: kind %d is not for users", p, kind)
	}
	if len(payload) > p.maxBulk {
		return fmt.Errorf("send bulk to %s: %w: %d bytes, the limit is %d", p, raysys.ErrTooLarge, len(payload), p.maxBulk)
	}
	return p.bulk.send(&bulkFrame{kind: kind, payload: payload, written: written, size: len(payload)})
}

// chaos sends a frame the way Config.Chaos wants it.
func (p *Peer) chaos(class wire.Class, kind wire.Kind, payload []byte) error {
	switch p.link.cfg.Chaos(p.id.Node, class, kind) {
	case Drop:
		p.counts.sent(class, 1, headerSize+len(payload))
		return nil
	case Duplicate:
		if err := p.send(class, kind, payload); err != nil {
			return err
		}
	case Reorder:
		p.mu.Lock()
		if p.held[class] == nil && !p.down {
			p.held[class] = append(appendHeader(nil, len(payload), kind, class), payload...)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
	}
	err := p.send(class, kind, payload)
	p.mu.Lock()
	p.emitHeldOf(class)
	p.mu.Unlock()
	return err
}

// emitHeld queues what Reorder held back, with mu held.
func (p *Peer) emitHeld() {
	for c := range p.held {
		p.emitHeldOf(wire.Class(c))
	}
}

func (p *Peer) emitHeldOf(class wire.Class) {
	frame := p.held[class]
	if frame == nil || p.down {
		return
	}
	p.held[class] = nil
	p.out[class].push(p, class, readHeader(frame).kind, frame[headerSize:])
	p.poke()
}

// appendCounts appends how many frames were written so far. mu is held.
func (p *Peer) appendCounts(dst []byte) []byte {
	dst = appendHeader(dst, countsSize, kindCounts, wire.Control)
	for c := range wire.Class(classes) {
		dst = binary.LittleEndian.AppendUint64(dst, p.counts.out[c].frames.Load())
	}
	return dst
}

// compare takes what appendCounts says. seen is what this pass of the reader brought before it.
func (p *Peer) compare(seen *batch, payload []byte) error {
	for c := range wire.Class(classes) {
		sent := binary.LittleEndian.Uint64(payload[8*c:])
		if err := p.missing(c, sent, p.counts.in[c].frames.Load()+uint64(seen.frames[c])); err != nil {
			return err
		}
	}
	return nil
}

// missing tells the user of frames that were found lost since it was called last.
func (p *Peer) missing(class wire.Class, sent, came uint64) error {
	if sent < came {
		return fmt.Errorf("%w: %d frames of %s came, and the peer says it has sent %d", ErrCorrupt, came, class, sent)
	}
	lost := sent - came
	if lost <= p.missed[class] {
		return nil
	}
	n := lost - p.missed[class]
	p.missed[class] = lost
	if p.link.cfg.Lost != nil {
		p.link.cfg.Lost(p, class, n)
	}
	return nil
}

// Stats returns the session's counts.
func (p *Peer) Stats() Stats { return p.counts.read() }

// RoundTrip is how long the last ping took there and back; zero before the first.
func (p *Peer) RoundTrip() time.Duration { return time.Duration(p.trip.Load()) }

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
