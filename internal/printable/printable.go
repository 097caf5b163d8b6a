package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape is s with what does not print escaped as in Go: a newline is \n, an escape character \x1b.
func Escape(s string) string { return escape(s, unprinted) }

func escape(s string, unprinted func(rune) bool) string {
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

func unprinted(r rune) bool { return !strconv.IsPrint(r) }

// Behind is a text with each line escaped but for its tabs, and the lines after the first behind "| ".
func Behind(s string) string { return strings.Join(split(s), "\n| ") }

// split returns the lines of a text, escaped but for their tabs.
func split(s string) []string {
	list := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, line := range list {
		list[i] = escape(strings.TrimSuffix(line, "\r"), func(r rune) bool { return r != '\t' && unprinted(r) })
	}
	return list
}

// Lines are the lines of a stack, escaped but for their tabs.
func Lines(s string) (list []string) {
	for _, line := range split(s) {
		if line != "" {
			list = append(list, line)
		}
	}
	return list
}

// JSON is JSON of one line with the same value, in which what does not print from U+007F on is a \u escape: JSON has escapes only for what is below
// U+0020. It returns b where nothing is to be escaped.
func JSON(b []byte) []byte {
	if i := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' }); i >= 0 { // between two tokens
		b = bytes.Map(func(r rune) rune { return max(r, ' ') }, b)
	}
	return High(b)
}

// High escapes as JSON does, from U+007F on alone. It returns b where nothing is to be escaped.
func High(b []byte) []byte {
	clean := func(r rune) bool { return r < 0x7f || r != utf8.RuneError && strconv.IsPrint(r) }
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if !clean(r) {
			break
		}
		at += n
	}
	if at == len(b) {
		return b
	}
	out := append(make([]byte, 0, len(b)+16), b[:at]...)
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		switch {
		case clean(r):
			out = append(out, b[at:at+n]...)
		default:
			for _, u := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, u)
			}
		}
		at += n
	}
	return out
}

// WriteJSON writes v as a line of JSON.
func WriteJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(JSON(b), '\n'))
	}
	return err
}
