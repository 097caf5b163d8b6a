package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The raw limit of messages between processes: frames of a length and a number over TCP, each answered with raw of the
// number. There are no ids, no classes, no credits, no futures.
const (
	frameHead = 4 // the length of the rest
	frameMin  = frameHead + 8
	frameMax  = 64 << 10
)

// echo is the other end of the raw connections, in a process of its own. It answers each frame with one of answer
// bytes, or of the same length when answer is 0, and writes when there is nothing more to read.
type echo struct {
	*rawServer
	answer int
}

// listenEcho begins to answer, on a free port of loopback.
func listenEcho(answer int) (*echo, error) {
	if answer != 0 && !frameSize(answer) {
		return nil, fmt.Errorf("raw answers of %d bytes: %d to %d are allowed", answer, frameMin, frameMax)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &echo{answer: answer}
	e.rawServer = newRawServer(ln, e.serve)
	return e, nil
}

// serve answers one connection.
func (e *echo) serve(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, frameMax)
	var out []byte
	for {
		n, err := readFrame(in)
		if err != nil {
			return err
		}
		size := e.answer
		if size == 0 {
			size = n.size
		}
		out = appendFrame(out, size, raw(n.value))
		if in.Buffered() > 0 && len(out) < frameMax {
			continue
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
}

func frameSize(n int) bool { return n >= frameMin && n <= frameMax }

type frame struct {
	size  int // all of it
	value int
}

// readFrame reads one frame from a reader that holds frameMax bytes.
func readFrame(in *bufio.Reader) (frame, error) {
	head, err := in.Peek(frameMin)
	if err != nil {
		return frame{}, err
	}
	size := frameHead + int(binary.LittleEndian.Uint32(head))
	if !frameSize(size) {
		return frame{}, fmt.Errorf("raw frame of %d bytes: %d to %d are allowed", size, frameMin, frameMax)
	}
	f := frame{size, int(binary.LittleEndian.Uint64(head[frameHead:]))}
	if _, err := in.Discard(size); err != nil {
		return frame{}, err
	}
	return f, nil
}

func appendFrame(to []byte, size, value int) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(size-frameHead))
	to = binary.LittleEndian.AppendUint64(to, uint64(value))
	return append(to, zeros[:size-frameMin]...)
}

var zeros [frameMax]byte

// caller is the asking end of a raw connection.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	size int // of a frame that asks
}

// dialEcho connects to the echo at address; its frames have size bytes, head included.
func dialEcho(address string, size int) (*caller, error) {
	if !frameSize(size) {
		return nil, fmt.Errorf("raw frames of %d bytes: %d to %d are allowed", size, frameMin, frameMax)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the raw end: %w", err)
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, frameMax), size: size}, nil
}

// batch sends n frames with 0, 1, 2... in one write and reads the n answers. Together they have to fit the buffers of a
// connection, because nothing is read meanwhile.
func (c *caller) batch(n int) error {
	c.out = c.out[:0]
	for i := range n {
		c.out = appendFrame(c.out, c.size, i)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	for i := range n {
		f, err := readFrame(c.in)
		if err != nil {
			return fmt.Errorf("read answer of the raw end: %w", unexpected(err))
		}
		if err := expect(f.value, raw(i)); err != nil {
			return err
		}
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *caller) close() { c.conn.Close() }
