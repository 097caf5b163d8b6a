package nodelog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestTextOfOthers: in both forms what does not print is escaped, and a text has no line that looks like another; JSON reads as the same text.
func TestTextOfOthers(t *testing.T) {
	odd := "a\x1b[2J\u009bK\x7f\n15:04:05.678 ERROR forged"
	for _, form := range []string{Terminal, JSON} {
		var b bytes.Buffer
		log := New(zapcore.AddSync(&b), form, zap.InfoLevel)
		if ce := log.Check(zap.ErrorLevel, odd); ce != nil {
			ce.Stack = "main.f()\n\t/a.go:1\x1b\n"
			ce.Write(zap.String("key", odd))
		}
		text := strings.ReplaceAll(b.String(), "\x1b[31mERROR\x1b[0m", "ERROR")
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) || strings.Contains(text, "\n15:04") {
			t.Errorf("%s: %q", form, text)
		}
		if form == Terminal {
			if !strings.Contains(text, `a\x1b[2J\u009bK\x7f`+"\n| 15:04:05.678 ERROR forged ") || !strings.Contains(text, "main.f()\n\t/a.go:1\\x1b\n") {
				t.Errorf("%q", text)
			}
			continue
		}
		var line struct{ Msg, Key string }
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Msg != odd || line.Key != odd {
			t.Errorf("%+v, %v", line, err)
		}
	}
}
