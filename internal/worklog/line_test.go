package worklog

import (
	"testing"
	"time"
)

// TestLine: lines of both loggers are read and look the same, and what is no line of a log is none.
func TestLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 678e6, time.Local)
	ts := `"ts":"` + at.Format(timeForm) + `"`
	for raw, want := range map[string]string{
		`{"level":"warn",` + ts + `,"msg":"lease","node":"a","peer":"b","id":"x"}`:                                          `15:04:05.678 WARN lease {"node": "a", "peer": "b", "id": "x"}`,
		`{"level":"info",` + ts + `,"msg":"up","id":"x","driver":"y"}`:                                                      `15:04:05.678 INFO up {"id": "x", "driver": "y"}`,
		`{` + ts + `,"level":"info","msg":"hello","node":"a","driver":"d","function":"f","id":"1","id":"mine","n":{"x":1}}`: `15:04:05.678 INFO (f a) hello {"id": "mine", "n": {"x":1}}`,
		`{` + ts + `,"level":"error","msg":"no","node":"a","driver":"d"}`:                                                   `15:04:05.678 ERROR (a) no`,
		`{` + ts + `,"level":"info","msg":"said","node":"a","driver":"d","function":"k/x.m","id":"1","output":"stderr"}`:    `15:04:05.678 INFO (k/x.m a) said`,
		`{"level":"error",` + ts + `,"msg":"p","stacktrace":"main.f()\n\t/f.go:1\nruntime.g()\n\t/g.go:2"}`:                 "15:04:05.678 ERROR p\n| main.f()\n| \t/f.go:1\n| \t... 1 frames of raysys and the runtime",
		// Text of others is one line, or its lines are behind "| "; nothing in it moves a cursor.
		`{` + ts + `,"level":"\u001b[1m","msg":"a\n15:04:05.678 ERROR b\r\n\u001b[2J\u009bK\tc\n","node":"a\nb","driver":"d","function":"f\n\u202e","id":"1","k":"` + "\u009b" + `K\u001b"}`: "15:04:05.678 \\x1b[1M (f\\n\\u202e a\\nb) a\n| 15:04:05.678 ERROR b\n| \\x1b[2J\\u009bK\tc {\"k\": \"\\u009bK\\u001b\"}",
		`{"level":"error",` + ts + `,"msg":"p","stacktrace":"main.f()\n\t/f.go:1\n15:04:05.678 \u001bERROR"}`:                                                                                "15:04:05.678 ERROR p\n| main.f()\n| \t/f.go:1\n| 15:04:05.678 \\x1bERROR",
		string(plain("stdout", []byte(`say "hi"`), at)):     `say "hi"`,
		`{"level":"info","msg":"no time"}`:                  "",
		`{` + ts + `,"msg":"no level"}`:                     "",
		`{` + ts + `,"level":"info"}`:                       "",
		`{` + ts + `,"level":"info","msg":"cut`:             "",
		`{"ts":"yesterday","level":"info","msg":"no time"}`: "",
		`{` + ts + `,"level":"info","msg":"more"}{}`:        "",
		`plain`: "",
		`[1]`:   "",
		``:      "",
	} {
		l, ok := Parse([]byte(raw))
		if ok != (want != "") {
			t.Errorf("%s: read as a line: %v", raw, ok)
		}
		if got := string(View{Node: true}.Append(nil, &l)); ok && got != want {
			t.Errorf("%s\ngot  %q\nwant %q", raw, got, want)
		}
	}
	l, _ := Parse(plain("stdout", []byte("x"), at))
	if got := string(View{Time: true}.Append(nil, &l)); got != "15:04:05.678 x" || !l.Time.Equal(at) {
		t.Errorf("%q at %v", got, l.Time)
	}
}
