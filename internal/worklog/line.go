package worklog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/nodelog"
	"github.com/raysys/raysys/internal/printable"
)

// The keys of a line. A node's own log has the first four; the others are of the work, in this order and directly behind.
const (
	keyTime     = "ts"
	keyLevel    = "level"
	keyText     = "msg"
	keyStack    = "stacktrace"
	keyNode     = "node"
	keyDriver   = "driver"
	keyFunction = "function"
	keyID       = "id"
	keyOutput   = "output"
)

// timeForm is that of the node's log; a time of it is read with any fraction.
const timeForm = "2006-01-02T15:04:05.000Z0700"

// workKeys are the keys of the work, in their order.
var workKeys = []string{keyNode, keyDriver, keyFunction, keyID, keyOutput}

// Parse reads a line of JSON with a time, a level and a text. Any other line is none of a log.
func Parse(raw []byte) (l inspect.LogLine, ok bool) {
	if len(raw) < 2 || raw[0] != '{' {
		return l, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	texts := map[string]*string{
		keyLevel: &l.Level, keyText: &l.Text, keyStack: &l.Stack, keyNode: (*string)(&l.Node), keyDriver: &l.Driver, keyFunction: &l.Function, keyID: &l.ID, keyOutput: &l.Output,
	}
	var rest []byte
	seen := map[string]bool{}
	work := 0 // of workKeys, those that may still come
	for d.More() {
		key, _ := d.Token()
		name, isKey := key.(string)
		var value json.RawMessage
		if !isKey || d.Decode(&value) != nil {
			return l, false
		}
		at := slices.Index(workKeys, name)
		var text string
		switch {
		case json.Unmarshal(value, &text) != nil || seen[name] || at >= 0 && at < work || (name == keyFunction || name == keyID) && !seen[keyDriver]:
		case name == keyTime:
			when, err := time.Parse(timeForm, text)
			if err != nil {
				return l, false
			}
			l.Time, seen[name] = when, true
			continue
		case texts[name] != nil:
			*texts[name], seen[name] = text, true
			work = max(work, at+1)
			continue
		}
		rest, work = appendField(rest, name, value), len(workKeys)
	}
	if _, err := d.Token(); err != nil || d.More() || !seen[keyTime] || !seen[keyLevel] || !seen[keyText] {
		return l, false
	}
	if l.Driver == "" && l.Node != "" { // the node's own log
		name, _ := json.Marshal(l.Node)
		rest = append(appendField(nil, keyNode, name), tail(rest)...)
		l.Node = ""
	}
	if rest != nil {
		l.Fields = append(rest, '}')
	}
	return l, true
}

// appendField appends a field to an object that is open.
func appendField(dst []byte, name string, value []byte) []byte {
	if dst == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ", "...)
	}
	quoted, _ := json.Marshal(name)
	return append(append(append(dst, quoted...), ": "...), value...)
}

// tail is what follows the first field of an open object that has fields.
func tail(object []byte) []byte {
	if object == nil {
		return nil
	}
	return append([]byte(", "), object[1:]...)
}

// plain is a line of plain output as a line of a log.
func plain(output string, text []byte, now time.Time) []byte {
	line, _ := json.Marshal(struct {
		Time   string `json:"ts"`
		Level  string `json:"level"`
		Text   string `json:"msg"`
		Output string `json:"output"`
	}{now.Format(timeForm), "", string(text), output})
	return line
}

// View says how lines look.
type View struct {
	Node   bool // with the name of the node
	Time   bool // plain output too has its time
	Colour bool
	More   string // follows the name of the node
}

// Append appends a line for people, without the end of line. What does not print is escaped; further lines of a text, and those of a stack, begin
// with "| ", so that no text looks like another line.
func (v View) Append(dst []byte, l *inspect.LogLine) []byte {
	if l.Level != "" || v.Time {
		dst = append(l.Time.Local().AppendFormat(dst, "15:04:05.000"), ' ')
	}
	if l.Level != "" {
		dst = append(v.level(dst, l.Level), ' ')
	}
	var from []string
	if l.Function != "" {
		from = append(from, printable.Escape(l.Function))
	}
	if v.Node && l.Node != "" {
		from = append(from, printable.Escape(string(l.Node)+v.More))
	}
	if len(from) > 0 {
		dst = append(append(append(dst, '('), strings.Join(from, " ")...), ") "...)
	}
	dst = append(dst, printable.Behind(l.Text)...)
	if len(l.Fields) > 0 {
		dst = append(append(dst, ' '), printable.JSON(l.Fields)...)
	}
	if l.Stack != "" {
		dst = append(append(dst, "\n| "...), printable.Behind(nodelog.Folded(l.Stack))...)
	}
	return dst
}

// colours are those of the terminal form of a node's log.
var colours = map[string]string{"DEBUG": "35", "INFO": "34", "WARN": "33"}

func (v View) level(dst []byte, level string) []byte {
	level = printable.Escape(strings.ToUpper(level))
	if !v.Colour {
		return append(dst, level...)
	}
	c := colours[level]
	if c == "" {
		c = "31"
	}
	return append(dst, "\x1b["+c+"m"+level+"\x1b[0m"...)
}

// matches reports whether the line is of those that are asked for.
func matches(l *inspect.LogLine, driver, function string) bool {
	return (driver == "" || l.Driver == driver) && (function == "" || l.Function == function || strings.HasPrefix(l.Function, function+"/"))
}
