package link

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A handshake's body is a list of fields: tag, length, bytes. A reader skips tags it does not know, so that a version
// may add fields (rule C4). Tags are never used again for something else.

// field is one of a message: its tag, and where its value is.
type field struct {
	tag uint64
	at  any // *uint64, *fixed64, *string or *[]Function
}

// fixed64 is a number that takes eight bytes, and not a varint: a hash.
type fixed64 uint64

// appendFields appends the fields in their order. Zero and an empty text are left out: that is what a missing field means.
func appendFields(dst []byte, list []field) []byte {
	for _, f := range list {
		switch at := f.at.(type) {
		case *uint64:
			if *at != 0 {
				dst = appendField(dst, f.tag, binary.AppendUvarint(nil, *at))
			}
		case *fixed64:
			dst = appendField(dst, f.tag, binary.LittleEndian.AppendUint64(nil, uint64(*at)))
		case *string:
			if *at != "" {
				dst = appendField(dst, f.tag, *at)
			}
		case *[]Function:
			var entry []byte
			for i := range *at {
				entry = appendFields(entry[:0], (*at)[i].fields())
				dst = appendField(dst, f.tag, entry)
			}
		}
	}
	return dst
}

func appendField[B ~string | ~[]byte](dst []byte, tag uint64, value B) []byte {
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// readFields reads the fields of list from b.
func readFields(b []byte, list []field) error {
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
		if i := slices.IndexFunc(list, func(f field) bool { return f.tag == tag }); i >= 0 {
			if err := list[i].read(b[:size]); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// maxText bounds every name in a handshake.
const maxText = 4096

func (f field) read(value []byte) error {
	switch at := f.at.(type) {
	case *uint64:
		v, n := binary.Uvarint(value)
		if n <= 0 || n != len(value) {
			return fmt.Errorf("%w: field %d is no number", ErrCorrupt, f.tag)
		}
		*at = v
	case *fixed64:
		if len(value) != 8 {
			return fmt.Errorf("%w: field %d has %d bytes, not 8", ErrCorrupt, f.tag, len(value))
		}
		*at = fixed64(binary.LittleEndian.Uint64(value))
	case *string:
		if len(value) > maxText {
			return fmt.Errorf("%w: field %d has %d bytes, the limit is %d", ErrCorrupt, f.tag, len(value), maxText)
		}
		*at = string(value)
	case *[]Function:
		if len(*at) == maxFunctions {
			return fmt.Errorf("%w: more than %d functions", ErrCorrupt, maxFunctions)
		}
		var entry Function
		err := readFields(value, entry.fields())
		*at = append(*at, entry)
		return err
	}
	return nil
}
