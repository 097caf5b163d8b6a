// Package link moves frames between nodes: one Link per node, one Peer per session with one incarnation of another
// node. What the frames say is its users' business.
//
//	Send ──▶ queue per class ──▶ writer ──▶ express connection ──▶ reader ──▶ Handler
//	          control             one write for all                one read for many
//	          replies             that waits                       frames, handled in place
//	          requests
//	SendBulk ──▶ queue ──▶ bulk connection (opened by the first) ──▶ Handler
//	SendBody ──▶   (from memory or a file)      (into memory that ──▶ Sink gives)
//
// Rules for the user:
//
//  1. A Peer is one session. When its connection breaks the Peer is down at once and for good; Connect makes another.
//     Up and Down are called once each per Peer, Down after the last Handler call has returned.
//  2. Handlers run on the connection's reader and must not block: the next frame waits for them. The payload is theirs
//     during the call only, except in class Bulk.
//  3. What one goroutine sends in one class arrives in that order. Classes overtake each other: control before
//     replies before requests. Each has its own queue and its own byte credits, so no class waits for a later one.
//  4. Silence never ends a session: the link tells how long a peer has been silent, its user decides.
//  5. What SendBody sends is not copied: it must not change before Release, nor the memory of a Landing be used before
//     Landed. It is no more verified than TCP or TLS do.
//  6. Plain TCP goes to loopback addresses only, unless told otherwise; between hosts it is TLS 1.3 with certificates
//     on both sides that name cluster and node. On plain connections both sides prove that they know Config.Secret.
//
// In short:
//
//	l, err := link.New(link.Config{
//		Self:      func() link.Identity { return link.Identity{Cluster: "c", Node: "a", Incarnation: 1} },
//		Transport: link.TCP(link.TCPConfig{}),
//		Listen:    "127.0.0.1:0",
//		Handlers:  map[wire.Kind]link.Handler{40: func(p *link.Peer, c wire.Class, b []byte) { ... }},
//	})
//	err = l.Start(ctx)
//	p, err := l.Connect(ctx, "b", "127.0.0.1:7000")
//	err = p.Send(wire.Requests, 40, payload)
//	p.Flush()
//
// It does not resend, reconnect or route by itself, and it does not say what a lost connection means for a call:
// that takes knowing whether the call was sent.
package link
