package link

import (
	"io"
	"net"
	"os"

	"github.com/raysys/raysys/internal/wire"
)

const copyBytes = 64 * kib

// bulkWriter writes the frames of one bulk connection. It keeps its buffers, so that no frame allocates.
type bulkWriter struct {
	conn   net.Conn
	vector bool       // conn takes many pieces at once
	files  fileSender // nil where the system does not copy from a file to conn
	start  [headerSize + 1 + MaxHead]byte
	one    [1][]byte
	cut    [][]byte
	out    net.Buffers
	turn   polite
	copy   []byte // of capacity copyBytes, once it is needed
}

// frame writes one frame. An error of the connection is err; unread is why a section of a file was sent as zeros.
func (w *bulkWriter) frame(f *bulkFrame) (unread, err error) {
	start := appendHeader(w.start[:0], f.size, f.kind, wire.Bulk)
	if !f.apart {
		w.one[0] = f.payload
		err = w.pieces(start, w.one[:])
		w.one[0] = nil
		return nil, err
	}
	setFlags(start, flagBody)
	start = append(append(start, byte(f.headLen)), f.head[:f.headLen]...)
	if f.body.File == nil {
		return nil, w.pieces(start, f.body.Pieces)
	}
	if _, err := w.conn.Write(start); err != nil {
		return nil, err
	}
	return w.section(f.body.File, f.body.Offset, f.body.Length)
}

// pieces writes start and pieces in cuts.
func (w *bulkWriter) pieces(start []byte, pieces [][]byte) error {
	w.cut = append(w.cut[:0], start)
	room := w.turn.cut() - len(start)
	for _, p := range pieces {
		for len(p) > 0 {
			n := min(room, len(p))
			w.cut = append(w.cut, p[:n])
			p, room = p[n:], room-n
			if room == 0 {
				if err := w.flush(); err != nil {
					return err
				}
				room = w.turn.cut()
			}
		}
	}
	return w.flush()
}

func (w *bulkWriter) flush() error {
	if len(w.cut) == 0 {
		return nil
	}
	var err error
	if w.vector {
		w.out = w.cut // consumed by WriteTo, which also forgets the pieces
		_, err = w.out.WriteTo(w.conn)
	} else {
		err = w.joined()
	}
	clear(w.cut)
	w.cut = w.cut[:0]
	w.turn.offer()
	return err
}

// joined writes the pieces of a cut to a connection that takes one at a time, as TLS does: a record and a system call for
// each. Short ones are copied together, with a header or whatever stands between long ones.
func (w *bulkWriter) joined() error {
	w.copy = w.copy[:0]
	for i, p := range w.cut {
		if len(p) < joinBytes && len(w.copy)+len(p) <= copyBytes {
			if w.copy == nil {
				w.copy = make([]byte, 0, copyBytes)
			}
			w.copy = append(w.copy, p...)
			if i < len(w.cut)-1 {
				continue
			}
			p = nil
		}
		for _, b := range [2][]byte{w.copy, p} {
			if len(b) == 0 {
				continue
			}
			if _, err := w.conn.Write(b); err != nil {
				return err
			}
		}
		w.copy = w.copy[:0]
	}
	return nil
}

// section writes a section of a file, without copying it where the system can.
func (w *bulkWriter) section(file *os.File, offset int64, length int) (unread, err error) {
	sent := 0
	if w.files != nil {
		// An error says little about which side it is of: what follows meets it again if it matters.
		for sent < length {
			n, err := w.files.send(file, offset+int64(sent), min(w.turn.cut(), length-sent))
			sent += n
			if err != nil || n == 0 {
				break
			}
			w.turn.offer()
		}
	}
	if w.copy == nil && sent < length {
		w.copy = make([]byte, 0, copyBytes)
	}
	for sent < length {
		part := w.copy[:min(copyBytes, length-sent)]
		if unread == nil {
			var n int
			n, unread = file.ReadAt(part, offset+int64(sent))
			if n == len(part) {
				unread = nil
			}
			if unread == io.EOF {
				unread = io.ErrUnexpectedEOF
			}
			clear(part[n:])
		} else {
			clear(part)
		}
		if _, err := w.conn.Write(part); err != nil {
			return nil, err
		}
		sent += len(part)
		w.turn.offer()
	}
	return unread, nil
}

// fileSender moves bytes from a file to a connection inside the system.
type fileSender interface {
	// send returns how much was sent: less than length only together with an error, or at the file's end.
	send(file *os.File, offset int64, length int) (int, error)
}
