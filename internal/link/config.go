package link

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// Handler takes one frame, on the reader of its connection: it must not block, and payload is valid during the call
// only.
type Handler func(p *Peer, class wire.Class, payload []byte)

// Config is what a Link needs. Self and Transport must be given; everything else has a default.
type Config struct {
	// Self is asked at each handshake, because a node learns its incarnation only when it joins.
	Self func() Identity
	// Transport makes and takes connections: TCP, LoadTLS, or in tests that of a linktest.Network.
	Transport Transport
	// Listen is the address to take connections at; empty takes none.
	Listen string
	// Handlers by kind, FirstKind and above. Frames of other kinds are skipped and counted.
	Handlers map[wire.Kind]Handler
	// Sinks by kind, FirstKind and above: where the bodies of SendBody go. Bodies of other kinds are skipped.
	Sinks map[wire.Kind]Sink

	// Admit may refuse a peer after its handshake was found right; cert is nil on a plain connection. It may block
	// until ctx ends. The other side is told its error's text. Of two incarnations of one node the link takes the one
	// that connects last: whether that is the current one, Admit has to know.
	Admit func(ctx context.Context, who Identity, cert *x509.Certificate) error
	// Secret is what the nodes of the cluster know and others do not: on plain connections both sides prove that they know
	// it. Empty, nothing is proved.
	Secret []byte
	// Unproven may allow a peer that Admit took on a plain connection, and that offers no proof, as a program from before
	// Secret does. A proof that is wrong is refused unasked. nil refuses all.
	Unproven func(ctx context.Context, who Identity) error
	// Up is called before the first Handler call of a peer and before Connect returns it, Down after the last Handler
	// call has returned; once each, and Down of a node's session before Up of its next. Both must return soon.
	Up   func(*Peer)
	Down func(p *Peer, cause error)
	// Suspect is called when a peer has been silent for SuspectAfter, and again with false when it is heard.
	Suspect func(p *Peer, silent bool)
	// Rejected is called for a handshake of a dialer that failed; who is the identity, as far as it was read.
	Rejected func(remote string, who Identity, err error)
	// Lost is called, on a reader of the peer, when n more frames of the peer have not arrived that were sent before
	// others that did. The session goes on: a user that waits for an answer on it should end it, since lost frames
	// are not sent again.
	Lost func(p *Peer, class wire.Class, n uint64)
	// Panicked learns of a handler's panic; the peer goes down because of it, the process does not.
	Panicked func(p *Peer, kind wire.Kind, value any, stack []byte)
	// Chaos, in tests, decides about each frame of users that leaves.
	Chaos func(to raysys.NodeID, class wire.Class, kind wire.Kind) Action

	// DialTimeout bounds the connection's making and HandshakeTimeout what follows: 5 s each.
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
	// PingEvery is how often each peer gets a ping: 500 ms.
	PingEvery time.Duration
	// BriskEvery is how often a peer gets a ping that was made Brisk: 200 ms.
	BriskEvery time.Duration
	// SuspectAfter is the silence reported to Suspect: four pings.
	SuspectAfter time.Duration
	// Linger bounds how long a closed session may take for its last bytes: 1 s.
	Linger time.Duration

	// MaxFrame bounds a payload on the express connection: 1 MiB. MaxBulk one in SendBulk: 4 MiB and 64 KiB for a head.
	MaxFrame int
	MaxBulk  int
	// Window is how many bytes of each class may be on the way to this node before it has handled them: 1, 4 and 4 MiB.
	// It holds the product of bandwidth and delay of 10 Gbit/s and 3 ms.
	Window [classes]int
	// Queue is how many bytes of each class may wait for a peer: 16, 64 and 16 MiB. Requests beyond it are refused
	// with ErrOverloaded; control and replies, which have no retry, end the session instead.
	Queue [classes]int
	// BulkQueue is how many bytes of SendBulk, and how many of SendBody, may wait for a bulk connection: 64 MiB.
	BulkQueue int
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// complete fills in defaults and reports everything that is wrong at once.
func (c *Config) complete() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Self == nil {
		bad("Config.Self is nil: give a function that says who this node is")
	}
	if c.Transport == nil {
		bad("Config.Transport is nil: give TCP or LoadTLS")
	}
	for k, h := range c.Handlers {
		if k < wire.FirstKind {
			bad("Config.Handlers has kind %d: numbers below %d are the link's", k, wire.FirstKind)
		}
		if h == nil {
			bad("Config.Handlers[%d] is nil", k)
		}
	}
	for k, s := range c.Sinks {
		if k < wire.FirstKind {
			bad("Config.Sinks has kind %d: numbers below %d are the link's", k, wire.FirstKind)
		}
		if s == nil {
			bad("Config.Sinks[%d] is nil", k)
		}
	}
	duration := func(name string, d *time.Duration, otherwise time.Duration) {
		if *d < 0 {
			bad("Config.%s is %s: give 0 (the default) or more", name, *d)
		}
		if *d == 0 {
			*d = otherwise
		}
	}
	duration("DialTimeout", &c.DialTimeout, 5*time.Second)
	duration("HandshakeTimeout", &c.HandshakeTimeout, 5*time.Second)
	duration("PingEvery", &c.PingEvery, 500*time.Millisecond)
	duration("BriskEvery", &c.BriskEvery, 200*time.Millisecond)
	duration("SuspectAfter", &c.SuspectAfter, 4*c.PingEvery)
	duration("Linger", &c.Linger, time.Second)
	size := func(name string, n *int, otherwise, least, most int) {
		if *n == 0 {
			*n = otherwise
		}
		if *n < least || *n > most {
			bad("Config.%s is %d: give 0 (the default) or %d to %d", name, *n, least, most)
		}
	}
	size("MaxFrame", &c.MaxFrame, mib, kib, 64*mib)
	size("MaxBulk", &c.MaxBulk, 4*mib+64*kib, kib, 1<<30)
	size("BulkQueue", &c.BulkQueue, 64*mib, c.MaxBulk, 1<<40)
	windows, queues := [classes]int{mib, 4 * mib, 4 * mib}, [classes]int{16 * mib, 64 * mib, 16 * mib}
	for i := range classes {
		size(fmt.Sprintf("Window[%s]", wire.Class(i)), &c.Window[i], windows[i], kib, 1<<30)
		size(fmt.Sprintf("Queue[%s]", wire.Class(i)), &c.Queue[i], queues[i], kib, 1<<40)
	}
	return errors.Join(errs...)
}

// Action is what Config.Chaos wants done with a frame.
type Action uint8

// The actions. A byte stream cannot lose or repeat a frame; what lies above must bear it all the same, because a
// session can.
const (
	Pass Action = iota
	Drop
	Duplicate
	Reorder // after the next frame of its class, or at the next ping
)
