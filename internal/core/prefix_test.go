package core_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
)

// A Prefix matches the ids whose digits begin so, and no others.
func TestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) core.TaskID {
			return core.TaskID{Hi: rapid.Uint64().Draw(t, name+" hi"), Lo: rapid.Uint64().Draw(t, name+" lo")}
		}
		id, n := draw("id"), rapid.IntRange(1, 32).Draw(t, "digits")
		other := draw("other")
		if rapid.Bool().Draw(t, "alike") {
			other = core.TaskID{Hi: id.Hi, Lo: id.Lo ^ 1<<rapid.IntRange(0, 63).Draw(t, "bit")}
		}
		digits := id.String()[:n]
		p, ok := core.PrefixOf(digits)
		if !ok || !p.Of(id) {
			t.Fatalf("%s does not match %v", digits, id)
		}
		if want := strings.HasPrefix(other.String(), digits); p.Of(other) != want {
			t.Fatalf("%s matches %v: %v", digits, other, !want)
		}
	})
	for _, bad := range []string{"", "x", "AB", "kind/key", strings.Repeat("0", 33)} {
		if _, ok := core.PrefixOf(bad); ok {
			t.Errorf("%q is taken for the digits of an id", bad)
		}
	}
}
