package link

import (
	"errors"
	"os"
	"sync/atomic"
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
