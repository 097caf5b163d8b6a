package entries

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// The letters of the types that keys have. What they keep apart is a key of 8 bytes and a number: int8 and int64 have
// one letter, so that a key may get a wider type.
const (
	letterString   = 's'
	letterSigned   = 'i'
	letterUnsigned = 'u'
)

// signBit makes signed numbers order as their bytes do.
const signBit = 1 << 63

// AppendName is the name of an entry's record: the field, and the letter with the key, each behind its length, since
// both may hold any byte. The bytes of keys of one letter order as the keys do.
func AppendName(field string, letter byte, key string) string {
	dst := wire.AppendUvarint(wire.AppendBytes(make([]byte, 0, len(field)+len(key)+8), field), uint64(1+len(key)))
	return string(append(append(dst, letter), key...))
}

// ReadName reads what AppendName wrote. It fails with graindir.ErrUnreadable on what AppendName would write otherwise.
func ReadName(name string) (field string, letter byte, key string, err error) {
	r := wire.NewReader([]byte(name))
	field, key = r.String(), r.String()
	if r.Err() != nil || r.Len() > 0 || key == "" || AppendName(field, key[0], key[1:]) != name {
		return "", 0, "", fmt.Errorf("%w: %q names no entry of a map", graindir.ErrUnreadable, name)
	}
	return field, key[0], key[1:], nil
}

// keyType is the type of a Map's keys.
type keyType struct {
	typ    reflect.Type
	letter byte
}

func keyTypeOf(t reflect.Type) (keyType, error) {
	switch k := t.Kind(); {
	case k == reflect.String:
		return keyType{t, letterString}, nil
	case k >= reflect.Int && k <= reflect.Int64:
		return keyType{t, letterSigned}, nil
	case k >= reflect.Uint && k <= reflect.Uint64:
		return keyType{t, letterUnsigned}, nil
	}
	return keyType{}, fmt.Errorf("a key is a string or an integer, and %s is neither", t)
}

// bytesOf returns the bytes of the key at k.
func (t keyType) bytesOf(k unsafe.Pointer) string {
	v := reflect.NewAt(t.typ, k).Elem()
	var n uint64
	switch t.letter {
	case letterString:
		return v.String()
	case letterSigned:
		n = uint64(v.Int()) ^ signBit
	default:
		n = v.Uint()
	}
	return string(binary.BigEndian.AppendUint64(nil, n))
}

// setTo sets the key at k to that of bytes, which have passed check.
func (t keyType) setTo(key string, k unsafe.Pointer) {
	v := reflect.NewAt(t.typ, k).Elem()
	switch t.letter {
	case letterString:
		v.SetString(key)
	case letterSigned:
		v.SetInt(int64(binary.BigEndian.Uint64([]byte(key)) ^ signBit))
	default:
		v.SetUint(binary.BigEndian.Uint64([]byte(key)))
	}
}

// check says why a stored key is none of this type.
func (t keyType) check(letter byte, key string) error {
	number := letter == letterSigned || letter == letterUnsigned
	switch {
	case letter != letterString && !number, number && len(key) != 8:
		return fmt.Errorf("an entry has the key %q of the type %q, unknown here: a newer program wrote it", key, letter)
	case letter != t.letter:
		return fmt.Errorf("an entry has the key %s, %s, and the keys are of the type %s now: "+
			"give the field another name, or its former type",
			keyType{letter: letter}.shown(key), typeNames[letter], t.typ)
	}
	n := uint64(0)
	if number {
		n = binary.BigEndian.Uint64([]byte(key))
	}
	v := reflect.Zero(t.typ)
	if letter == letterSigned && v.OverflowInt(int64(n^signBit)) || letter == letterUnsigned && v.OverflowUint(n) {
		return fmt.Errorf("an entry has the key %s, which no %s holds: give the field its former type",
			t.shown(key), t.typ)
	}
	return nil
}

var typeNames = map[byte]string{
	letterString: "a string", letterSigned: "a signed integer", letterUnsigned: "an unsigned integer",
}

// shown is the key as text, at most about 64 bytes of it.
func (t keyType) shown(key string) string {
	switch {
	case t.letter == letterString && len(key) > 64:
		return strconv.Quote(key[:64]) + " .."
	case t.letter == letterString:
		return strconv.Quote(key)
	case t.letter == letterSigned:
		return strconv.FormatInt(int64(binary.BigEndian.Uint64([]byte(key))^signBit), 10)
	}
	return strconv.FormatUint(binary.BigEndian.Uint64([]byte(key)), 10)
}
