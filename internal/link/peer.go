package link

import (
	"crypto/x509"
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
	p.bulk.wait()
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
