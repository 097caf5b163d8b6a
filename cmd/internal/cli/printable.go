package cli

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/raysys/raysys/internal/printable"
)

// Printable is a copy of v for people: its strings are as printable.Escape makes them, and its JSON as printable.JSON. Fields that are not exported
// stay as they are.
func Printable[T any](v T) T {
	return copyOf(reflect.ValueOf(&v).Elem()).Interface().(T)
}

func copyOf(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch v.Kind() {
	case reflect.String:
		c.SetString(printable.Escape(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(copyOf(v.Field(i)))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c.Set(reflect.New(v.Type().Elem()))
			c.Elem().Set(copyOf(v.Elem()))
		}
	case reflect.Slice:
		if raw, ok := v.Interface().(json.RawMessage); ok {
			c.SetBytes(printable.JSON(raw))
		} else if !v.IsNil() {
			c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				c.Index(i).Set(copyOf(v.Index(i)))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			c.Index(i).Set(copyOf(v.Index(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			c.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for at := v.MapRange(); at.Next(); {
				c.SetMapIndex(copyOf(at.Key()), copyOf(at.Value()))
			}
		}
	}
	return c
}

func lines(s string) string {
	list := strings.Split(s, "\n\t")
	for i := range list {
		list[i] = printable.Escape(list[i])
	}
	return strings.Join(list, "\n\t")
}

// text is an error for people. The parts of errors.Join keep lines of their own, and so do lines that begin with a tab: those of a program that
// the error shows.
func text(err error) string {
	parts, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return lines(err.Error())
	}
	var plain, joined []string
	for _, e := range parts.Unwrap() {
		plain, joined = append(plain, e.Error()), append(joined, text(e))
	}
	if err.Error() != strings.Join(plain, "\n") { // it says more than its parts
		return lines(err.Error())
	}
	return strings.Join(joined, "\n")
}
