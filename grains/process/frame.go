package process

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A frame is a length (uint32, little-endian, of what follows), a kind (1 byte) and a body. The body is the length of a header
// (uint32), the header (JSON, filled up with spaces), and the elements of the tensors that the header describes, each filled up with
// zeros, so that each begins at a multiple of 8 in the body. The elements of a shared frame lie in the same way in descriptor 5 of the
// child, from its beginning on.
type frameKind byte

const (
	callFrame    frameKind = iota + 1 // to the child: method, values and tensors
	resultFrame                       // from the child: values and tensors
	failureFrame                      // from the child: what the method raised
	beatFrame                         // from the child, while it works: an empty body, or while it starts what it does
	sharedFrame                       // from a child that has shared memory: a result whose tensors lie there
)

const (
	frameHead  = 5
	align      = 8
	maxKept    = 4 << 10   // bytes of a header that is kept for the next frame
	maxFailure = 512 << 10 // bytes of the frame of a failure, whatever Config.MaxFrame says: an error's text is not lost
)

// message is a frame's header, and the tensors behind it.
type message struct {
	copy []byte // of shared memory: the tensors are slices of it

	Method  string          `json:"method,omitempty"` // "" makes the object whose methods are called then
	Values  json.RawMessage `json:"values,omitempty"` // an object: keyword arguments, or what the method returned
	Tensors []described     `json:"tensors,omitempty"`
	Failure *failure        `json:"failure,omitempty"`
	Doing   string          `json:"doing,omitempty"` // of a beat: what the child does while it starts
}

// described is a tensor in a header.
type described struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"`
	Shape []int  `json:"shape"`
	data  []byte
}

func (d described) tensor() Tensor { return Tensor{d.DType, d.Shape, d.data} }

// failure is an exception of the child's.
type failure struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	Env       *int   `json:"env,omitempty"`   // of a Vector: the environment that raised it
	Shape     bool   `json:"shape,omitempty"` // it gave an observation of another shape
	Large     int    `json:"large,omitempty"` // the frame of the result has so many bytes: more than Config.MaxFrame
}

// padding is how many bytes fill n up.
func padding(n int) int { return -n & (align - 1) }

// write sends a frame of at most limit bytes. What is too large is refused before a byte of it is sent.
func (m *message) write(w io.Writer, kind frameKind, limit int) error {
	header, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	if near := changed(header, true); near != "" {
		return fmt.Errorf("%w: text that is no UTF-8, near %s: send bytes as a Tensor of uint8", ErrValue, near)
	}
	pad := padding(4 + len(header))
	size := 4 + len(header) + pad
	for _, t := range m.Tensors {
		size += len(t.data) + padding(len(t.data))
	}
	if size > limit-1 {
		return tooLarge(size, limit)
	}
	head := make([]byte, 0, frameHead+4+len(header)+pad)
	head = binary.LittleEndian.AppendUint32(head, uint32(1+size))
	head = append(head, byte(kind))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(header)+pad))
	head = append(head, header...)
	head = append(head, "        "[:pad]...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range m.Tensors {
		if _, err := w.Write(t.data); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, align)[:padding(len(t.data))]); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads the next frame of at most limit bytes.
func readFrame(r io.Reader, limit int) (frameKind, []byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n, kind := int(binary.LittleEndian.Uint32(head[:])), frameKind(head[4])
	switch {
	case n < 1 || kind < callFrame || kind > sharedFrame:
		return 0, nil, fmt.Errorf("%w: it begins with %q", ErrProtocol, head[:])
	case n > limit && (kind != failureFrame || n > maxFailure):
		return 0, nil, tooLarge(n, limit)
	}
	body := make([]byte, n-1)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return kind, body, nil
}

// decoder reads the bodies of frames of one child.
type decoder struct {
	limit  int
	shared io.ReaderAt // memory that the child writes large results to
	spare  []byte      // room for a copy of the next of them
	header []byte      // of the last frame: that of the next step is the same, and is not parsed again
	parsed message     // what it says
}

// decode reads the body of a frame. The tensors share its memory, or those of a shared frame that of a copy.
func (d *decoder) decode(body []byte, kind frameKind) (m message, err error) {
	if len(body) < 4 {
		return m, fmt.Errorf("%w: a body of %d bytes", ErrProtocol, len(body))
	}
	n := int(binary.LittleEndian.Uint32(body))
	if n > len(body)-4 {
		return m, fmt.Errorf("%w: a header of %d bytes in a body of %d", ErrProtocol, n, len(body))
	}
	if header := body[4 : 4+n]; !bytes.Equal(header, d.header) || d.header == nil {
		d.header, d.parsed = nil, message{}
		if err := json.Unmarshal(header, &m); err != nil {
			return m, fmt.Errorf("%w: its header: %w", ErrProtocol, err)
		}
		if n <= maxKept {
			d.header, d.parsed = bytes.Clone(header), m
		}
	} else {
		m = d.parsed
	}
	m.Tensors = slices.Clone(m.Tensors)
	at := 4 + n
	if kind == sharedFrame {
		at = 0
		if body, err = d.copied(m.Tensors); err != nil {
			return m, err
		}
		m.copy = body
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		t.Shape = slices.Clone(t.Shape) // what is returned is the caller's
		size, err := t.tensor().length()
		if err != nil {
			return m, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		at += padding(at)
		if at > len(body) || size > len(body)-at {
			return m, fmt.Errorf("%w: tensor %.40q goes beyond the body", ErrProtocol, t.Name)
		}
		t.data = body[at : at+size : at+size]
		at += size
	}
	return m, nil
}

// copied returns the bytes of tensors that are in shared memory.
func (d *decoder) copied(tensors []described) ([]byte, error) {
	if d.shared == nil {
		return nil, fmt.Errorf("%w: tensors in shared memory, which this child has not", ErrProtocol)
	}
	size := 0
	for _, t := range tensors {
		n, err := t.tensor().length()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if size += padding(size) + n; size > d.limit {
			return nil, tooLarge(size, d.limit)
		}
	}
	body := d.spare
	if d.spare = nil; cap(body) < size {
		body = make([]byte, size)
	}
	body = body[:size]
	if _, err := d.shared.ReadAt(body, 0); err != nil {
		return nil, fmt.Errorf("%w: its tensors have %d bytes in shared memory: %w", ErrProtocol, size, err)
	}
	return body, nil
}

// changed returns the surroundings of text in a JSON value that decodes to other text, because it is no UTF-8: bytes, or an escaped half of
// a character. In JSON that is sent, also what json.Marshal writes for such bytes. It returns "" where there is none.
func changed(b []byte, sent bool) string {
	if !utf8.Valid(b) {
		return around(b, bytes.IndexRune(b, utf8.RuneError))
	}
	for i := 0; i < len(b); i += 2 {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			break
		}
		i += next
		r := escaped(b[i:])
		switch {
		case utf16.IsSurrogate(r) && utf16.DecodeRune(r, escaped(b[i+6:])) != utf8.RuneError:
			i += 10
		case utf16.IsSurrogate(r), sent && r == utf8.RuneError:
			return around(b, i)
		}
	}
	return ""
}

// escaped is the character that \uXXXX says at the beginning of b, -1 where b begins otherwise.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(r)
}

func around(b []byte, i int) string { return fmt.Sprintf("%q", b[max(i-40, 0):min(i+20, len(b))]) }
