package link

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/pipe"
	"github.com/raysys/raysys/internal/wire"
)

// stream is one end of a connection that runs through a relay: bytes in frames of the session with the relay, under a
// window of their own, so that a stream holds up no other and a relay needs to keep no more than that.
type stream struct {
	via  *Peer
	id   uint64
	node raysys.NodeID // at the other end
	in   *pipe.Half
	once sync.Once

	mu      sync.Mutex // guards the rest
	cond    *sync.Cond // of writers
	room    int        // bytes that the other end takes
	eaten   int        // bytes read here and not granted again
	ended   bool       // no more is written
	broken  error
	writeBy pipe.Deadline
}

const (
	streamWindow = 256 * kib
	streamPiece  = 32 * kib
)

func newStream(via *Peer, id uint64, node raysys.NodeID) *stream {
	s := &stream{via: via, id: id, node: node, in: pipe.NewHalf(streamWindow), room: streamWindow}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.in.Read(b)
	if n > 0 {
		s.mu.Lock()
		s.eaten += n
		more := 0
		if s.eaten >= streamWindow/4 {
			more, s.eaten = s.eaten, 0
		}
		s.mu.Unlock()
		if more > 0 {
			s.via.send(wire.Replies, kindRelayMore, appendMore(nil, s.id, more))
		}
	}
	return n, err
}

func (s *stream) Write(b []byte) (int, error) { return s.write(b, true) }

// TryWrite implements tryWriter.
func (s *stream) TryWrite(b []byte) (int, error) { return s.write(b, false) }

func (s *stream) write(b []byte, wait bool) (n int, err error) {
	for n < len(b) {
		m, err := s.reserve(min(len(b)-n, streamPiece, s.via.maxFrame-8), wait)
		if m == 0 || err != nil {
			return n, err
		}
		if err := s.via.send(wire.Replies, kindRelayData, append(binary.LittleEndian.AppendUint64(make([]byte, 0, 8+m), s.id), b[n:n+m]...)); err != nil {
			return n, fmt.Errorf("%w: relay %s: %v", ErrUnreachable, s.via.id.Node, err)
		}
		n += m
	}
	return n, nil
}

// reserve takes room for up to most bytes.
func (s *stream) reserve(most int, wait bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.broken != nil:
			return 0, s.broken
		case s.ended:
			return 0, net.ErrClosed
		case s.writeBy.Passed():
			return 0, os.ErrDeadlineExceeded
		case s.room > 0:
			n := min(most, s.room)
			s.room -= n
			return n, nil
		case !wait:
			return 0, nil
		}
		s.cond.Wait()
	}
}

// takeData is what the reader of the relay's session does with data: it must not wait, and need not, because the window
// was the sender's to keep.
func (s *stream) takeData(b []byte) error {
	n, err := s.in.Write(b, time.Time{}, false)
	if err == nil && n < len(b) {
		return fmt.Errorf("%w: more data than the window of a relayed stream", ErrCorrupt)
	}
	return nil // an end that is closed takes what still comes
}

func (s *stream) more(n int) {
	s.mu.Lock()
	s.room = min(s.room+n, 1<<30)
	s.mu.Unlock()
	s.cond.Broadcast()
}

// finish is the other end's last word: how it ended.
func (s *stream) finish(how ending, why string) {
	if how == endWriting {
		s.in.End()
		return
	}
	err := fmt.Errorf("%w: the stream through %s to %s ended", ErrUnreachable, s.via.id.Node, s.node)
	if how == endLost {
		err = fmt.Errorf("%w through %s: %s", ErrUnreachable, s.via.id.Node, why)
		s.in.Break(err)
	} else {
		s.in.End() // after what is there
	}
	s.mu.Lock()
	s.broken = err
	s.mu.Unlock()
	s.cond.Broadcast()
}

// CloseWrite ends this direction.
func (s *stream) CloseWrite() error {
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	s.mu.Unlock()
	s.cond.Broadcast()
	if !first {
		return nil
	}
	return s.via.send(wire.Replies, kindRelayClose, appendEnd(nil, s.id, endWriting, ""))
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
		s.cond.Broadcast()
		s.in.Deafen()
		s.SetDeadline(time.Time{})
		s.via.link.routes.forget(s)
		s.via.send(wire.Replies, kindRelayClose, appendEnd(nil, s.id, endClosed, ""))
	})
	return nil
}

func (s *stream) LocalAddr() net.Addr { return pipe.Addr("relay") }

// RemoteAddr names the relay and the node behind it.
func (s *stream) RemoteAddr() net.Addr { return pipe.Addr(fmt.Sprintf("%s/%s", s.via.id.Node, s.node)) }

func (s *stream) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

func (s *stream) SetReadDeadline(t time.Time) error {
	s.in.SetReadDeadline(t)
	return nil
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	s.writeBy.Set(t, s.wake)
	s.mu.Unlock()
	s.cond.Broadcast()
	return nil
}

func (s *stream) wake() {
	s.mu.Lock()
	s.cond.Broadcast()
	s.mu.Unlock()
}
