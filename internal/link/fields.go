package link

import (
	"encoding/binary"
	"fmt"
)

// A handshake's body is a list of fields: tag, length, bytes. A reader skips tags it does not know, so that a version
// may add fields (rule C4). Tags are never used again for something else.

func appendField(dst []byte, tag uint64, value []byte) []byte {
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// appendText leaves an empty text out: that is what a missing field means.
func appendText[S ~string](dst []byte, tag uint64, value S) []byte {
	if value == "" {
		return dst
	}
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// appendNumber leaves zero out.
func appendNumber(dst []byte, tag, value uint64) []byte {
	if value == 0 {
		return dst
	}
	var b [binary.MaxVarintLen64]byte
	return appendField(dst, tag, b[:binary.PutUvarint(b[:], value)])
}

// readFields hands every field of b to each, whose value aliases b.
func readFields(b []byte, each func(tag uint64, value []byte) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("%w: a field's tag is cut off", ErrCorrupt)
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return fmt.Errorf("%w: field %d is longer than what holds it", ErrCorrupt, tag)
		}
		b = b[n+m:]
		if err := each(tag, b[:size:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

func readNumber(tag uint64, value []byte, to *uint64) error {
	v, n := binary.Uvarint(value)
	if n <= 0 || n != len(value) {
		return fmt.Errorf("%w: field %d is no number", ErrCorrupt, tag)
	}
	*to = v
	return nil
}

// maxText bounds every name in a handshake.
const maxText = 4096

func readText[S ~string](tag uint64, value []byte, to *S) error {
	if len(value) > maxText {
		return fmt.Errorf("%w: field %d has %d bytes, the limit is %d", ErrCorrupt, tag, len(value), maxText)
	}
	*to = S(value)
	return nil
}
