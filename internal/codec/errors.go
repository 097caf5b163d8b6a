package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/raysys/raysys"
)

// TypeError says that values of a type cannot travel. It matches raysys.ErrEncode.
type TypeError struct {
	Type   reflect.Type // the type PlanOf was asked about
	Path   string       // where in it the trouble is, such as Config.Hooks[].Fn
	Reason string       // what is wrong and what to do
}

func (e *TypeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("type %s: %s", e.Type, e.Reason)
	}
	return fmt.Sprintf("type %s: %s: %s", e.Type, e.Path, e.Reason)
}

// Is makes errors.Is(err, raysys.ErrEncode) true.
func (e *TypeError) Is(target error) bool { return target == error(raysys.ErrEncode) }

// EncodeError says that one value of an encodable type cannot travel: what stands in one of its interface fields, or
// what a method of its own answered. It matches raysys.ErrEncode and its cause.
type EncodeError struct {
	Type   reflect.Type // the type of the whole value
	Path   string       // where in the value, such as .Rules[3].When
	Reason string       // what is wrong and what to do
	Err    error        // the cause, nil where there is none
}

func (e *EncodeError) Error() string { return describe("encode", e.Type, e.Path, "", e.Reason, e.Err) }

// Unwrap returns raysys.ErrEncode and the cause.
func (e *EncodeError) Unwrap() []error {
	if e.Err == nil {
		return []error{raysys.ErrEncode}
	}
	return []error{raysys.ErrEncode, e.Err}
}

// DecodeError says that bytes are not a value of the type. The value decoded into is zero.
type DecodeError struct {
	Type   reflect.Type // the type of the whole value
	Path   string       // where in the value
	Offset int          // where in the input
	Reason string       // what is wrong and what to do
	Err    error        // the cause, nil where there is none
}

func (e *DecodeError) Error() string {
	return describe("decode", e.Type, e.Path, fmt.Sprintf(" at byte %d", e.Offset), e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// ErrNoReference is the cause of a DecodeError: the value refers to more than the decoder was given.
var ErrNoReference = errors.New("what the value refers to is not known")

func describe(verb string, t reflect.Type, path, place, reason string, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v", verb, t)
	if path != "" {
		b.WriteString(" (" + strings.TrimPrefix(path, ".") + ")")
	}
	b.WriteString(place + ": " + reason)
	if err != nil {
		b.WriteString(": " + err.Error())
	}
	return b.String()
}

// at puts a step before the path of err, which comes from a level below. Paths are built on the way out, so that a
// value without trouble pays nothing for them.
func at(err error, step string) error {
	switch e := err.(type) { // ours, never wrapped on the way
	case *EncodeError:
		e.Path = joined(step, e.Path)
	case *DecodeError:
		e.Path = joined(step, e.Path)
	}
	return err
}

// joined is step before path, of which the middle is left out where it is long: values may be ten thousand deep.
func joined(step, path string) string {
	if len(path) <= longPath {
		return step + path
	}
	return step + " ... " + path[len(path)-longPath/2:]
}

const longPath = 400

// unencodable is an EncodeError whose Type and outer path are filled in by the levels above.
func unencodable(err error, format string, args ...any) *EncodeError {
	return &EncodeError{Reason: fmt.Sprintf(format, args...), Err: err}
}

// display is the name of t for people: without directories, also inside type arguments.
func display(t reflect.Type) string {
	var out strings.Builder
	word := ""
	for _, r := range t.String() {
		switch {
		case r == '/':
			word = ""
		case strings.ContainsRune("[],*() {};", r):
			out.WriteString(word)
			out.WriteRune(r)
			word = ""
		default:
			word += string(r)
		}
	}
	return out.String() + word
}
