package bus_test

import (
	"testing"

	"github.com/raysys/raysys/stream/internal/bus"
)

// FuzzEscape: what is escaped is one token of a subject, and comes back.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a", "=", "a.b>*", "\x00\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := bus.Escape(s)
		for _, c := range e {
			if c <= ' ' || c > '~' || c == '.' || c == '*' || c == '>' || c == '/' || c == '\\' {
				t.Fatalf("%q has %q", e, c)
			}
		}
		if back, err := bus.Unescape(e); err != nil || back != s || e == "" {
			t.Fatalf("%q, %q, %v", s, back, err)
		}
		_, _ = bus.Unescape(s)
	})
}
