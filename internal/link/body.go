package link

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// MaxHead is how many bytes the head of a frame with a body may have: it is kept by value, so that sending a body
// allocates nothing.
const MaxHead = 64

// ErrAbandoned is what a Landing gets whose memory was wanted back by Abandon.
var ErrAbandoned = errors.New("landing abandoned")

// Body is what follows the head of a SendBody: pieces of memory, or else a section of a file, which plain TCP sends
// without copying. Neither may change until Release was called.
type Body struct {
	Pieces [][]byte
	File   *os.File
	Offset int64
	Length int // of the section; not used with Pieces
	// Release, if given, is called once, from any goroutine, when the link does not need pieces or file any more. The
	// error is nil when all was written, which does not mean that it arrived. When the section could not be read the
	// rest of it was sent as zeros: what arrives has to be verified by its receiver.
	Release func(error)
}

func (b *Body) size() int {
	if b.File != nil {
		return b.Length
	}
	n := 0
	for _, p := range b.Pieces {
		n += len(p)
	}
	return n
}

func (b *Body) release(err error) {
	if b.Release != nil {
		b.Release(err)
	}
}

// releaseOfTwo changes Release so that it takes effect when it was called twice.
func (b *Body) releaseOfTwo() func(error) {
	if b.Release == nil {
		return func(error) {}
	}
	var calls atomic.Int32
	release := b.Release
	b.Release = func(err error) {
		if calls.Add(1) == 2 {
			release(err)
		}
	}
	return b.Release
}

// Sink is asked, on the reader of the bulk connection, where the body of a frame goes; nil skips it. It must not block,
// and head is valid until Landed has returned.
type Sink func(p *Peer, head []byte, size int) Landing

// Landing is where one body goes. The link reads straight into its memory.
type Landing interface {
	// Memory returns exactly size bytes, the argument of the Sink.
	Memory() []byte
	// Landed is called once, on the same reader: with nil when the body is there, and else why it will not be. From then
	// on the link does not touch the memory. It must not block.
	Landed(err error)
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

func (b *bulk) abandon(l Landing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.placing || b.landing == l { // a sink that runs may be about to return l
		if !b.placing && !b.kicked {
			b.kicked = true
			b.conn.SetReadDeadline(longAgo)
		}
		b.landed.Wait()
	}
}

// place asks the sink for a landing, whose memory is in use from then on.
func (b *bulk) place(sink Sink, head []byte, size int) (l Landing) {
	b.mu.Lock()
	b.placing = true
	b.mu.Unlock()
	defer func() { // also when the sink panics
		b.mu.Lock()
		b.placing, b.landing = false, l
		b.mu.Unlock()
		b.landed.Broadcast()
	}()
	return sink(b.peer, head, size)
}

// wasKicked reports whether a read ended because of Abandon, and not because the session did.
func (b *bulk) wasKicked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kicked && !b.ended
}

// forget cleans up after a Landing that panicked.
func (b *bulk) forget() {
	b.mu.Lock()
	b.landing = nil
	b.mu.Unlock()
	b.landed.Broadcast()
}

// settle calls Landed and wakes the goroutines that wait for the memory in Abandon.
func (b *bulk) settle(l Landing, err error) {
	defer func() { // also when Landed panics
		b.mu.Lock()
		if b.kicked {
			b.kicked = false
			if !b.ended { // else the deadline is that of the end
				b.conn.SetReadDeadline(never)
			}
		}
		b.landing = nil
		b.mu.Unlock()
		b.landed.Broadcast()
	}()
	l.Landed(err)
}
