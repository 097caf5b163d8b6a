package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/cmd/internal/cli"
)

type inner struct{ Names []string }

type raw = json.RawMessage

type shown struct {
	Text   string
	Map    map[string]inner
	To     *inner
	Two    [2]string
	N      int
	JSON   raw
	hidden string
}

func TestPrintable(t *testing.T) {
	given := shown{"a\nb", map[string]inner{"k\x1b": {[]string{"\t"}}}, &inner{[]string{"ü \"x\" \\n"}}, [2]string{"\x00", "\xff"}, 3, raw("\"\u009b\x7f\""), "\n"}
	want := shown{`a\nb`, map[string]inner{`k\x1b`: {[]string{`\t`}}}, &inner{[]string{"ü \"x\" \\n"}}, [2]string{`\x00`, `\xff`}, 3, raw(`"\u009b\u007f"`), "\n"}
	if d := cmp.Diff(want, cli.Printable(given), cmp.AllowUnexported(shown{})); d != "" {
		t.Error(d)
	}
	if given.Map["k\x1b"].Names[0] != "\t" {
		t.Error("what was given has changed")
	}
}
