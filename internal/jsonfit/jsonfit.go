package jsonfit

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Decode reads the whole text into the value to which to points. It refuses what encoding/json drops: fields without a
// place, elements beyond an array, a second value, bytes that are no UTF-8. The error says where in the text something
// does not fit, below path, and which type is there.
func Decode(path string, text []byte, to any) error {
	text = bytes.Trim(text, " \t\r\n")
	whole := json.NewDecoder(bytes.NewReader(text))
	whole.DisallowUnknownFields()
	// A text without lists has no elements to drop, and most texts fit: then one pass is enough.
	if bytes.IndexByte(text, '[') < 0 && utf8.Valid(text) && whole.Decode(to) == nil &&
		whole.InputOffset() == int64(len(text)) {
		return nil
	}
	f := fitting{json.NewDecoder(bytes.NewReader(text)), path}
	err := json.Unmarshal(text, &json.RawMessage{})
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is no UTF-8") // encoding/json would put other letters there
	}
	if err == nil {
		err = f.check(reflect.TypeOf(to).Elem())
	}
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("at %s: %w", cmp.Or(strings.Trim(f.path, "."), "the top"), err)
	}
	return nil
}

// RefusedError is what an UnmarshalJSON or UnmarshalText has returned.
type RefusedError struct {
	Type reflect.Type
	error
}

// Unwrap is for errors.Is.
func (e *RefusedError) Unwrap() error { return e.error }

// fitting finds where a text does not fit a type: encoding/json drops what a type has no place for, and few of its
// errors name their place.
type fitting struct {
	*json.Decoder
	path string // where it is
}

// check returns what is wrong with the next value, for a type.
func (f *fitting) check(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	v, k := reflect.New(t).Interface(), t.Kind()
	_, knows := v.(json.Unmarshaler) // what it takes
	_, reads := v.(encoding.TextUnmarshaler)
	object, list := k == reflect.Struct || k == reflect.Map, k == reflect.Slice || k == reflect.Array
	if knows || reads || !object && !list || list && t.Elem().Kind() == reflect.Uint8 {
		err := f.Decode(v)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("%s is no %s", wrong.Value, wrong.Type)
		} else if err != nil && (knows || reads) {
			err = &RefusedError{t, err}
		}
		return err
	}
	open, err := f.Token()
	if err != nil || open == nil { // null
		return err
	}
	if object && open != json.Delim('{') || list && open != json.Delim('[') {
		return fmt.Errorf("%.40v is no %s", open, t)
	}
	above, fields := f.path, []reflect.StructField(nil)
	if k == reflect.Struct {
		fields = reflect.VisibleFields(t)
	}
	for i := 0; f.More(); i++ {
		var of reflect.Type
		if list {
			f.path = fmt.Sprintf("%s[%d]", above, i)
			if of = t.Elem(); k == reflect.Array && i == t.Len() {
				return fmt.Errorf("%s has no place for it", t)
			}
		} else {
			key, err := f.Token()
			f.path = fmt.Sprintf("%s.%s", above, key)
			at := slices.IndexFunc(fields, func(f reflect.StructField) bool {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				named := f.IsExported() && (!f.Anonymous || name != "") && name != "-"
				return named && strings.EqualFold(fmt.Sprint(key), cmp.Or(name, f.Name))
			})
			switch {
			case err != nil:
				return err
			case at >= 0 && strings.Contains(fields[at].Tag.Get("json"), ",string"):
				of = reflect.TypeFor[any]()
			case at >= 0:
				of = fields[at].Type
			case k == reflect.Struct:
				return fmt.Errorf("%s has no field of that name", t)
			default:
				of = t.Elem()
			}
		}
		if err := f.check(of); err != nil {
			return err
		}
	}
	f.path = above
	_, err = f.Token() // its end
	return err
}
