package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// Shapes of an error on the wire.
const (
	errPlain byte = iota // text, the sentinels it is, what errors.As finds in it
	errTask              // raysys.TaskError
	errPanic             // raysys.PanicError
	errValue             // a registered error type, by codec
)

// Bounds: an error is a message, not a payload.
const (
	maxErrorDepth = 16
	maxErrorParts = 64   // of one error, and as many names of sentinels
	maxErrors     = 2048 // in one error, at all depths; what is beyond travels as text alone. A reader takes twice as many
	maxText       = 16 << 10
)

// AppendError appends err so that errors.Is finds registered sentinels and errors.As finds *raysys.TaskError,
// *raysys.PanicError and registered error types in what ReadError makes of it. The text is the same.
func AppendError(dst []byte, err error) []byte {
	left := maxErrors
	return appendError(dst, err, 0, &left)
}

// appendError takes one from left for each error that it appends.
func appendError(dst []byte, err error, depth int, left *int) []byte {
	*left--
	switch e := err.(type) {
	case *raysys.TaskError:
		if e == nil || depth > maxErrorDepth {
			break
		}
		dst = append(dst, errTask)
		dst = AppendID(dst, e.Task)
		dst = AppendBytes(dst, clip(e.Function))
		dst = AppendBytes(dst, e.Node)
		dst = binary.AppendUvarint(dst, uint64(max(e.Attempt, 0)))
		stack := e.Stack
		if depth < maxErrorDepth && bytes.Equal(stack, raysys.Stack(e.Err)) {
			stack = nil // the error inside brings it, and the reader takes it from there
		}
		dst = AppendBytes(dst, clip(string(stack)))
		return appendError(dst, e.Err, depth+1, left)
	case *raysys.PanicError:
		if e == nil || depth > maxErrorDepth {
			break
		}
		dst = append(dst, errPanic)
		if cause, ok := e.Value.(error); ok {
			return appendError(append(dst, 1), cause, depth+1, left)
		}
		return AppendBytes(append(dst, 0), clip(panicText(e)))
	}
	names := core.RegisteredErrors(err)
	typed, isTyped := appendTyped(nil, err)
	if isTyped && len(names) == 0 {
		return append(dst, typed...)
	}
	text := "nil error"
	if err != nil {
		text = errorText(err)
	}
	dst = AppendBytes(append(dst, errPlain), clip(text))
	names = names[:min(len(names), maxErrorParts)]
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, n := range names {
		dst = AppendBytes(dst, n)
	}
	if isTyped { // what it wraps may be in no field that travels, so the names stand beside it
		return append(binary.AppendUvarint(dst, 1), typed...)
	}
	parts := typedParts(err, nil, 0)
	if depth > maxErrorDepth || len(parts) > *left {
		parts = nil
	}
	dst = binary.AppendUvarint(dst, uint64(len(parts)))
	for _, p := range parts {
		dst = appendError(dst, p, depth+1, left)
	}
	return dst
}

// errorText survives an Error method that panics.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "an error whose Error method panics"
		}
	}()
	return err.Error()
}

// panicText is the panic's value in words, as PanicError shows it.
func panicText(e *raysys.PanicError) string { return strings.TrimPrefix(errorText(e), "panic: ") }

func clip(s string) string {
	if len(s) > maxText {
		return s[:maxText] + " ... (cut)"
	}
	return s
}

// typedParts lists what is inside err, but for err itself, that errors.As may look for.
func typedParts(err error, parts []error, depth int) []error {
	var inner []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	for _, x := range inner {
		if x == nil || len(parts) >= maxErrorParts || depth > maxErrorDepth {
			continue
		}
		switch x.(type) {
		case *raysys.TaskError, *raysys.PanicError:
			parts = append(parts, x)
			continue
		}
		if _, ok := registeredType(x); ok {
			parts = append(parts, x)
			continue
		}
		parts = typedParts(x, parts, depth+1)
	}
	return parts
}

// registeredType finds the name of an error's type, registered as it is or as what it points to.
func registeredType(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	return core.RegisteredName(reflect.TypeOf(err))
}

// appendTyped appends an error of a registered type as a value of that type; false when it is none, or cannot travel.
func appendTyped(dst []byte, err error) ([]byte, bool) {
	name, ok := registeredType(err)
	if !ok {
		return dst, false
	}
	v := reflect.ValueOf(err)
	p, bad := codec.PlanOf(v.Type())
	if bad != nil || p.HasRefs() {
		return dst, false
	}
	at := reflect.New(v.Type())
	at.Elem().Set(v)
	out := AppendBytes(append(dst, errValue), name)
	out = AppendBytes(out, clip(errorText(err)))
	out, bad = AppendValue(out, p, at.UnsafePointer(), nil)
	return out, bad == nil
}

// RemoteError is an error that another node sent. Match it with errors.Is and errors.As.
type RemoteError struct {
	Text  string
	parts []error
}

func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns the sentinels the error is, and what of registered types is in it.
func (e *RemoteError) Unwrap() []error { return e.parts }

// bare returns the part that says all that e does, and e where there is none: a sentinel, and an error of a registered
// type, stay themselves.
func (e *RemoteError) bare() error {
	for _, p := range e.parts {
		says := errorText(p) == e.Text
		for _, other := range e.parts {
			says = says && errors.Is(p, other)
		}
		if says {
			return p
		}
	}
	return e
}

// ReadError reads what AppendError wrote.
func ReadError(r *Reader) error {
	left := 2 * maxErrors
	err := readError(r, 0, &left)
	if r.bad {
		return errors.Join(ErrCorrupt, err)
	}
	return err
}

// readError takes one from left for each error that it reads.
func readError(r *Reader, depth int, left *int) error {
	if *left--; depth > maxErrorDepth+2 || *left < 0 {
		r.fail()
		return ErrCorrupt
	}
	switch shape := r.Byte(); shape {
	case errTask:
		e := &raysys.TaskError{Task: r.ID(), Function: r.String(), Node: raysys.NodeID(r.String()), Attempt: int(r.Uint32())}
		if s := r.Bytes(); len(s) > 0 {
			e.Stack = append([]byte(nil), s...)
		}
		if e.Err = readError(r, depth+1, left); e.Stack == nil {
			e.Stack = raysys.Stack(e.Err)
		}
		return e
	case errPanic:
		if r.Byte() == 1 {
			return &raysys.PanicError{Value: readError(r, depth+1, left)}
		}
		return &raysys.PanicError{Value: r.String()}
	case errValue:
		name, text := r.String(), r.String()
		body := r.Sized()
		if e, ok := decodeTyped(name, body); ok {
			return e
		}
		return &RemoteError{Text: text}
	case errPlain:
		e := &RemoteError{Text: r.String()}
		for range countOfParts(r) {
			if s := core.RegisteredError(r.String()); s != nil {
				e.parts = append(e.parts, s)
			}
		}
		for range countOfParts(r) {
			e.parts = append(e.parts, readError(r, depth+1, left))
			if r.bad {
				break
			}
		}
		return e.bare()
	default:
		r.fail()
		return ErrCorrupt
	}
}

// countOfParts refuses more than AppendError writes: what follows compares each with each.
func countOfParts(r *Reader) int {
	n := r.Count(1)
	if n > maxErrorParts {
		r.fail()
		return 0
	}
	return n
}

func decodeTyped(name string, body []byte) (error, bool) {
	t, ok := core.RegisteredType(name)
	if !ok {
		return nil, false
	}
	p, err := codec.PlanOf(t)
	if err != nil || p.HasRefs() {
		return nil, false
	}
	v := reflect.New(t).Elem()
	if p.Decode(body, v, nil) != nil {
		return nil, false
	}
	e, ok := v.Interface().(error)
	if !ok || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	return core.Sound(e), true // what it wrapped may be in no field that travels
}
