package codec

import (
	"encoding"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/proto"
)

var (
	binaryMarshaler   = reflect.TypeFor[encoding.BinaryMarshaler]()
	binaryAppender    = reflect.TypeFor[encoding.BinaryAppender]()
	binaryUnmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	bigFloat          = reflect.TypeFor[big.Float]()
	textMarshaler     = reflect.TypeFor[encoding.TextMarshaler]()
	textAppender      = reflect.TypeFor[encoding.TextAppender]()
	textUnmarshaler   = reflect.TypeFor[encoding.TextUnmarshaler]()
	protoMessage      = reflect.TypeFor[proto.Message]()
)

// leaf is a type that encodes itself.
type leaf struct {
	typ  reflect.Type
	as   byte   // the form
	name string // for the schema
}

// leafOf is the node of t where it encodes itself, else nil. It needs both directions of a pair. A text is for people,
// and may say less than the value: that of a big.Float has its digits, not its precision; a named []byte, string or
// number is all there without it.
func leafOf(t reflect.Type) *node {
	ptr := reflect.PointerTo(t)
	l := &leaf{typ: t}
	switch {
	case ptr.Implements(protoMessage) && ownsMethods(t, protoMessage):
		l.as = formProto
		l.name = "proto(" + string(reflect.New(t).Interface().(proto.Message).ProtoReflect().Descriptor().FullName()) + ")"
		return &node{shape: l, body: l, sizer: protoSizer{l}}
	case halfOf(ptr, binaryMarshaler, binaryAppender) && ptr.Implements(binaryUnmarshaler) && ownsMethods(t, binaryUnmarshaler):
		l.as, l.name = formBinary, "binary("+bareName(t)+")"
	case t == bigFloat:
		l.as, l.name = formBinary, "binary(Float)"
	case !basic(t) && halfOf(ptr, textMarshaler, textAppender) && ptr.Implements(textUnmarshaler) && ownsMethods(t, textUnmarshaler):
		l.as, l.name = formText, "text("+bareName(t)+")"
	default:
		return nil
	}
	return &node{shape: l, body: l}
}

func halfOf(ptr, marshaler, appender reflect.Type) bool {
	return ptr.Implements(marshaler) || ptr.Implements(appender)
}

// basic reports whether t is a []byte, a string, a number or a truth value, with methods of its own.
func basic(t reflect.Type) bool {
	k := t.Kind()
	return k >= reflect.Bool && k <= reflect.Complex128 && k != reflect.Uintptr || k == reflect.String ||
		k == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// ownsMethods reports whether the methods of want are t's own. A struct inherits those of an embedded field, and they would
// leave its other fields out; reflection does not tell the two apart, so that embedding decides.
func ownsMethods(t, want reflect.Type) bool {
	return !inherits(t, want) || t.NumField() == 1
}

// bareName is the name of t without package and type arguments: the schema does not depend on where a type lives.
func bareName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

func (l *leaf) form() byte { return l.as }

// appendBody appends what the type's own method writes.
func (l *leaf) appendBody(dst []byte, p unsafe.Pointer, _ pass) (out []byte, err error) {
	v := reflect.NewAt(l.typ, p).Interface()
	defer func() {
		if r := recover(); r != nil {
			err = unencodable(asError(r), "its own method panicked")
		}
	}()
	switch l.as {
	case formProto:
		out, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, v.(proto.Message))
	case formBinary:
		if f, ok := v.(*big.Float); ok {
			out, err = f.GobEncode()
			out = append(dst, out...)
			break
		}
		if a, ok := v.(encoding.BinaryAppender); ok {
			out, err = a.AppendBinary(dst)
			break
		}
		out, err = v.(encoding.BinaryMarshaler).MarshalBinary()
		out = append(dst, out...)
	case formText:
		if a, ok := v.(encoding.TextAppender); ok {
			out, err = a.AppendText(dst)
			break
		}
		out, err = v.(encoding.TextMarshaler).MarshalText()
		out = append(dst, out...)
	}
	if err == nil && len(out) < len(dst) {
		return nil, unencodable(nil, "its own method returned less than it was given to append to")
	}
	if err != nil {
		return nil, unencodable(err, "its own method failed")
	}
	return out, nil
}

func (l *leaf) decodeBody(d *decoder, p unsafe.Pointer) error {
	src, _ := d.take(uint64(d.left()))
	return l.parse(d, src, p)
}

// parse hands src, which ends where the decoder stands, to the type's own method. The contract of those methods is to
// copy what they keep.
func (l *leaf) parse(d *decoder, src []byte, p unsafe.Pointer) (err error) {
	v := reflect.NewAt(l.typ, p).Interface()
	defer func() {
		if r := recover(); r != nil {
			err = l.refuse(d, src, "panicked", asError(r))
		}
	}()
	switch l.as {
	case formProto:
		err = proto.Unmarshal(src, v.(proto.Message))
	case formBinary:
		if f, ok := v.(*big.Float); ok {
			err = f.GobDecode(src)
			break
		}
		err = v.(encoding.BinaryUnmarshaler).UnmarshalBinary(src)
	case formText:
		err = v.(encoding.TextUnmarshaler).UnmarshalText(src)
	}
	if err != nil {
		return l.refuse(d, src, "refused the bytes", err)
	}
	return nil
}

func (l *leaf) refuse(d *decoder, src []byte, what string, cause error) error {
	fail := d.fail("the own method of %s %s", l.typ, what)
	fail.Offset -= len(src)
	fail.Err = cause
	return fail
}

func asError(panicked any) error {
	if err, ok := panicked.(error); ok {
		return err
	}
	return fmt.Errorf("%v", panicked)
}

func (l *leaf) append(dst []byte, p unsafe.Pointer, _ pass) ([]byte, error) {
	start := len(dst)
	dst, err := l.appendBody(dst, p, pass{})
	if err != nil {
		return nil, err
	}
	// The length comes first and is known last: the payload moves up by the size of its head.
	var head [9]byte
	major := byte(majorBytes)
	if l.as == formText {
		major = textMajor(utf8.Valid(dst[start:]))
	}
	h := appendHead(head[:0], major, uint64(len(dst)-start))
	end := len(dst)
	dst = append(dst, h...)
	copy(dst[start+len(h):], dst[start:end])
	copy(dst[start:], h)
	return dst, nil
}

func (l *leaf) decode(d *decoder, p unsafe.Pointer) error {
	if l.as == formText {
		src, err := d.text()
		if err != nil {
			return err
		}
		return l.parse(d, src, p)
	}
	n, err := d.expect(majorBytes, "bytes")
	if err != nil {
		return err
	}
	src, err := d.take(n)
	if err != nil {
		return err
	}
	return l.parse(d, src, p)
}

func (l *leaf) describe(s *schema) { s.write(l.name) }

// protoSizer takes the encoded size of a message for the memory it holds, which has the same order of magnitude.
type protoSizer struct{ *leaf }

func (l protoSizer) size(p unsafe.Pointer, _ measure) int {
	return proto.Size(reflect.NewAt(l.typ, p).Interface().(proto.Message))
}

// inherits reports whether an embedded field of the struct t has the methods of want.
func inherits(t, want reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type.Implements(want) || reflect.PointerTo(f.Type).Implements(want)) {
			return true
		}
	}
	return false
}
