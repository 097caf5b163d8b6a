package printable_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/raysys/raysys/internal/printable"
)

// TestTexts: no text moves a cursor, ends a line, or begins one that is not behind "| ".
func TestTexts(t *testing.T) {
	for _, c := range []struct{ given, escaped, behind string }{
		{"", "", ""},
		{"ü \"x\" \\n", "ü \"x\" \\n", "ü \"x\" \\n"},
		{"a\nb\n\nc\n", `a\nb\n\nc\n`, "a\n| b\n| \n| c"},
		{"a\r\nb\rc", `a\r\nb\rc`, "a\n| b\\rc"},
		{"\tf()\t1", `\tf()\t1`, "\tf()\t1"},
		{"\x1b[2J\x00\x7f", `\x1b[2J\x00\x7f`, `\x1b[2J\x00\x7f`},
		{"\u009b2J\u202e\u2028\U000e0001\xff", `\u009b2J\u202e\u2028\U000e0001\xff`, `\u009b2J\u202e\u2028\U000e0001\xff`},
	} {
		if got := printable.Escape(c.given); got != c.escaped {
			t.Errorf("Escape(%q) is %q, want %q", c.given, got, c.escaped)
		}
		if got := printable.Behind(c.given); got != c.behind {
			t.Errorf("Behind(%q) is %q, want %q", c.given, got, c.behind)
		}
	}
	if got := strings.Join(printable.Lines("main.f()\n\t/a.go:1\n\n\x1bx\n"), ";"); got != "main.f();\t/a.go:1;\\x1bx" {
		t.Errorf("%q", got)
	}
}

// TestJSON: it is one line that prints, and reads as what was given.
func TestJSON(t *testing.T) {
	for _, given := range []string{"", "plain ü", "\u009b2J\x7f\u202e\u2028", "\U000e0001\U0001f600 \ufffd", "\x1b\n\t"} {
		var b bytes.Buffer
		if err := printable.WriteJSON(&b, map[string]string{given: given}); err != nil {
			t.Fatal(err)
		}
		line, _ := strings.CutSuffix(b.String(), "\n")
		var back map[string]string
		if err := json.Unmarshal([]byte(line), &back); err != nil || back[given] != given || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q became %q: %q, %v", given, line, back, err)
		}
	}
	if got := string(printable.JSON([]byte("{\n \"a\":\r1}"))); got != `{  "a": 1}` {
		t.Errorf("%q", got)
	}
}
