package link

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// What the tests of the wire format need of the inside.

// Hello is a handshake's first message, as a test writes it.
type Hello struct {
	Identity     Identity
	Min, Max     uint64
	To           raysys.NodeID
	Session      uint64
	Gone, Order  uint64
	Window       [3]uint64
	Frame, Bulk  uint64
	UnknownField bool
	Nonce        string
}

// Append encodes h.
func (h Hello) Append(dst []byte) []byte {
	in := hello{
		id: h.Identity, protocolMin: h.Min, protocolMax: h.Max, to: h.To, session: h.Session, gone: h.Gone, order: h.Order,
		window: h.Window, maxFrame: h.Frame, maxBulk: h.Bulk, nonce: h.Nonce,
	}
	if h.UnknownField {
		dst = appendField(dst, 999, []byte("of a later version"))
	}
	return in.append(dst)
}

// ReadHello decodes b.
func ReadHello(b []byte) (Hello, error) {
	var h hello
	err := h.read(b)
	return Hello{h.id, h.protocolMin, h.protocolMax, h.to, h.session, h.gone, h.order, h.window, h.maxFrame, h.maxBulk, false, h.nonce}, err
}

// ReadRejection decodes b.
func ReadRejection(b []byte) (*Rejection, uint64, error) {
	var r Rejection
	err := r.read(b)
	return &r, r.session, err
}

// NewRejection makes one with the session of CodeDuplicate.
func NewRejection(code Code, text string, session uint64) *Rejection {
	return &Rejection{Code: code, Text: text, session: session}
}

// Append encodes r.
func (r *Rejection) Append(dst []byte) []byte { return r.append(dst) }

// BulkHello is the first message of a bulk connection.
type BulkHello struct {
	Cluster              string
	From, To             raysys.NodeID
	Incarnation, Session uint64
}

// Append encodes h.
func (h BulkHello) Append(dst []byte) []byte {
	in := hello{id: Identity{Cluster: h.Cluster, Node: h.From, Incarnation: h.Incarnation}, to: h.To, session: h.Session}
	return in.append(dst)
}

// ReadBulkHello decodes b.
func ReadBulkHello(b []byte) (BulkHello, error) {
	var h hello
	err := h.read(b)
	return BulkHello{h.id.Cluster, h.id.Node, h.to, h.id.Incarnation, h.session}, err
}

// MAC is what a side makes of the first message of a connection and the challenge to it.
func MAC(secret string, dialing bool, first uint8, h Hello, p Proof) string {
	by := acceptingSide
	if dialing {
		by = dialingSide
	}
	l := &Link{cfg: Config{Secret: []byte(secret)}}
	return l.mac(by, messageType(first), &hello{id: h.Identity, to: h.To, session: h.Session, nonce: h.Nonce}, &proof{p.Incarnation, p.Nonce, p.MAC})
}

// Proof is the body of a challenge and of the answer to it.
type Proof struct {
	Incarnation uint64
	Nonce, MAC  string
}

// Append encodes p.
func (p Proof) Append(dst []byte) []byte {
	in := proof{p.Incarnation, p.Nonce, p.MAC}
	return in.append(dst)
}

// ReadProof decodes b.
func ReadProof(b []byte) (Proof, error) {
	var p proof
	err := p.read(b)
	return Proof{p.incarnation, p.nonce, p.mac}, err
}

// ReadConfirm decodes b.
func ReadConfirm(b []byte) (order uint64, err error) {
	var c confirm
	err = c.read(b)
	return c.order, err
}

// AppendConfirm encodes a confirm.
func AppendConfirm(dst []byte, order uint64) []byte {
	c := confirm{order}
	return c.append(dst)
}

// WriteMessage and ReadMessage move handshake messages; Protocol picks a version.
func WriteMessage(w io.Writer, t uint8, body []byte) error {
	return writeMessage(w, messageType(t), body)
}

// ReadMessage reads one.
func ReadMessage(r io.Reader) (uint8, []byte, error) {
	t, b, err := readMessage(r)
	return uint8(t), b, err
}

// Protocol picks a version.
func Protocol(ownMin, ownMax, min, max uint64) (uint64, error) {
	return protocol(ownMin, ownMax, min, max)
}

// Frame is a whole frame.
type Frame struct {
	Kind    wire.Kind
	Class   wire.Class
	Flags   uint16
	Payload string
}

// Append encodes f.
func (f Frame) Append(dst []byte) []byte {
	dst = appendHeader(dst, len(f.Payload), f.Kind, f.Class)
	binary.LittleEndian.PutUint16(dst[len(dst)-2:], f.Flags)
	return append(dst, f.Payload...)
}

// Split returns the whole frames in b and how many bytes they took.
func Split(b []byte, limit int) (frames []Frame, taken int, err error) {
	taken, err = split(b, limit, func(h header, payload []byte) error {
		frames = append(frames, Frame{h.kind, h.class, h.flags, string(payload)})
		return nil
	})
	return frames, taken, err
}

// Feed hands b to the reader of a session that nobody listens to, as the connection would, and returns what it took.
func Feed(b []byte) (taken int, err error) {
	l, err := New(Config{
		Self:      func() Identity { return Identity{Cluster: "c", Node: "n"} },
		Transport: TCP(TCPConfig{}),
		Handlers:  map[wire.Kind]Handler{wire.FirstKind: func(p *Peer, _ wire.Class, b []byte) { p.Send(wire.Replies, wire.FirstKind, b) }},
	})
	if err != nil {
		panic(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	s := l.hold("peer")
	p := newPeer(l, s, near, &hello{id: Identity{Node: "peer"}, window: [3]uint64{1 << 20, 1 << 20, 1 << 20}, maxFrame: 1 << 20, maxBulk: 1 << 20}, peerOf{})
	return p.dispatch(b, l.cfg.MaxFrame)
}

// BodyFrame is a whole frame of SendBody.
func BodyFrame(kind wire.Kind, head, body string) []byte {
	f := bulkFrame{kind: kind, apart: true, headLen: len(head), size: 1 + len(head) + len(body), body: Body{Pieces: [][]byte{[]byte(body)}}}
	copy(f.head[:], head)
	var got bytes.Buffer
	var calls atomic.Int64
	w := &bulkWriter{conn: writeConn{w: &got}, turn: polite{calls: &calls, now: func() int64 { return 0 }, yield: yield}}
	if _, err := w.frame(&f); err != nil {
		panic(err)
	}
	return got.Bytes()
}

// writeConn is a connection that is written to or read from.
type writeConn struct {
	net.Conn
	w io.Writer
	r io.Reader
}

func (c writeConn) Write(b []byte) (int, error) { return c.w.Write(b) }

func (c writeConn) Read(b []byte) (int, error) { return c.r.Read(b) }

func (c writeConn) SetReadDeadline(time.Time) error { return nil }

// FeedBulk hands b to the reader of a bulk connection until it ends, and returns why that was.
func FeedBulk(b []byte, handlers map[wire.Kind]Handler, sinks map[wire.Kind]Sink) error {
	l, err := New(Config{
		Self:      func() Identity { return Identity{Cluster: "c", Node: "n"} },
		Transport: TCP(TCPConfig{}), Handlers: handlers, Sinks: sinks, MaxBulk: 1 << 20, BulkQueue: 1 << 20,
	})
	if err != nil {
		panic(err)
	}
	conn := writeConn{r: bytes.NewReader(b)}
	p := newPeer(l, l.hold("peer"), conn, &hello{id: Identity{Node: "peer"}, maxFrame: 1 << 20, maxBulk: 1 << 20}, peerOf{})
	r := &bulkReader{bulk: &p.bulk, conn: conn, turn: l.polite()}
	p.bulk.conn = conn
	for {
		if err := r.frame(); err != nil {
			return err
		}
	}
}

// Offers counts how often the processor is offered in a run of cuts of one duration, when each offer costs cost, and says
// how long the longest cut was, in bytes. The last call was since ago when it begins; calling says that they go on.
func Offers(run, cut, cost, since time.Duration, calling bool) (offers, longest int) {
	var calls atomic.Int64
	clock := int64(since)
	p := polite{calls: &calls, now: func() int64 { return clock }, yield: func() {
		offers++
		clock += int64(cost)
	}}
	for end := clock + int64(run); clock < end; clock += int64(cut) {
		if calling {
			calls.Store(clock)
		}
		longest = max(longest, p.cut())
		p.offer()
	}
	return offers, longest
}

// Owed returns the frames of the link's own kinds, as this version writes them.
func Owed(age time.Duration) []byte {
	p := &Peer{link: &Link{base: time.Now().Add(-age)}}
	p.owed = owed{ping: true, pong: true, echo: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, bulk: true, credit: [classes]bool{true, false, true}, any: true}
	p.in[wire.Control].due, p.in[wire.Requests].due = 1000, 1<<20
	return p.settle(nil)
}

// AppendOpening, ReadOpening, AppendMore and AppendEnd are the payloads of frames about streams.
func AppendOpening(dst []byte, id uint64, from, to raysys.NodeID) []byte {
	o := opening{id, from, to}
	return o.append(dst)
}

// ReadOpening decodes b.
func ReadOpening(b []byte) (id uint64, from, to raysys.NodeID, err error) {
	var o opening
	err = o.read(b)
	return o.id, o.from, o.to, err
}

// AppendMore grants bytes.
func AppendMore(dst []byte, id uint64, n int) []byte { return appendMore(dst, id, n) }

// AppendEnd ends a stream.
func AppendEnd(dst []byte, id uint64, how uint8, why string) []byte {
	return appendEnd(dst, id, ending(how), why)
}

// OpenStream opens a stream and leaves it at that.
func (l *Link) OpenStream(node raysys.NodeID, via *Peer) (net.Conn, error) {
	return l.routes.open(node, via)
}

// Streams counts what the link remembers of streams.
func (l *Link) Streams() int {
	r := &l.routes
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ends) + len(r.routes) + len(r.used)
}

// BreakOff closes the session's connection without a word.
func (p *Peer) BreakOff() { p.breakOff() }

// CountsFrame is what a node sends that has sent so many frames of each class, BulkCountFrame the same on a bulk connection.
func CountsFrame(control, replies, requests int) []byte {
	p := &Peer{}
	for c, n := range [classes]int{control, replies, requests} {
		p.counts.sent(wire.Class(c), n, 0)
	}
	return p.appendCounts(nil)
}

// BulkCountFrame is described with CountsFrame.
func BulkCountFrame(n uint64) []byte {
	return append(appendHeader(nil, 8, kindCounts, wire.Bulk), bulkCount(n)...)
}

// LoadUnverified is LoadTLS without a look at whether the node's own certificate is good: for impostors.
var LoadUnverified = loadTLS

// Bounds on strangers.
const (
	MaxShaking = maxShaking
	MaxSilent  = maxSilent
	MaxHellos  = maxHellos
)

// Waiting is how many bytes of a class are queued for the peer.
func (p *Peer) Waiting(class wire.Class) int {
	if class == wire.Bulk {
		b := &p.bulk
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.bytes[0] + b.bytes[1]
	}
	if class > wire.Bulk {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out[class].bytes
}

// Certificate is what the peer proved its name with; nil on a plain connection.
func (p *Peer) Certificate() *x509.Certificate { return leaf(p.conn) }

// MaxBulk is described with MaxFrame.
func (p *Peer) MaxBulk() int { return p.maxBulk }

// held is what Pause takes off what is due, so that nothing is granted.
const held = 1 << 40

// Pause stops granting credits to the peer for frames of a class, so that soon it sends no more of them; the other
// classes go on. Resume grants what was held back.
func (p *Peer) Pause(class wire.Class) {
	p.mu.Lock()
	p.in[class].due -= held
	p.owed.credit[class] = false
	p.mu.Unlock()
}

// Resume ends Pause.
func (p *Peer) Resume(class wire.Class) {
	p.mu.Lock()
	p.in[class].due += held
	p.grant(class, 0)
	if p.owed.any {
		p.poke()
	}
	p.mu.Unlock()
}

// OwnPing has PongCounts return the value of a ping that was sent.
const OwnPing = 1<<64 - 1

// PongCounts reports whether a pong with that value counts, after a ping was sent.
func PongCounts(value uint64) bool {
	var g pings
	base := time.Now().Add(-time.Minute)
	if sent := g.send(base); value == OwnPing {
		value = sent
	}
	_, known := g.pong(base, binary.LittleEndian.AppendUint64(nil, value))
	_, answered := g.Answered()
	return known && answered
}
