package cli

import (
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable is a copy of v for people: in its strings, what does not print is escaped as in Go. Names, keys and texts of errors come from programs and their
// clients; written to a terminal as they are they could move its cursor, or look like a line of the command. Fields that are not exported stay as
// they are.
func Printable[T any](v T) T {
	return printable(reflect.ValueOf(&v).Elem()).Interface().(T)
}

func printable(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch v.Kind() {
	case reflect.String:
		c.SetString(Escape(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(printable(v.Field(i)))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c.Set(reflect.New(v.Type().Elem()))
			c.Elem().Set(printable(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				c.Index(i).Set(printable(v.Index(i)))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			c.Index(i).Set(printable(v.Index(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			c.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for at := v.MapRange(); at.Next(); {
				c.SetMapIndex(printable(at.Key()), printable(at.Value()))
			}
		}
	}
	return c
}

// Escape is s with what does not print escaped as in Go: a newline is \n, an escape character \x1b.
func Escape(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unprinted) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if part := s[:n]; unprinted(r) || r == utf8.RuneError && n == 1 {
			q := strconv.Quote(part)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteString(part)
		}
		s = s[n:]
	}
	return b.String()
}

// Lines are the lines of a stack, each escaped but for the tabs at its begin.
func Lines(s string) (list []string) {
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			text := strings.TrimLeft(line, "\t")
			list = append(list, line[:len(line)-len(text)]+Escape(text))
		}
	}
	return list
}

func unprinted(r rune) bool { return !strconv.IsPrint(r) }

func lines(s string) string {
	list := strings.Split(s, "\n\t")
	for i := range list {
		list[i] = Escape(list[i])
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
