package figures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMedianAndRatio(t *testing.T) {
	if got := Median([]float64{3, 1, 2}); got != 2 {
		t.Error(got)
	}
	if got := Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Error(got)
	}
	if got := Ratio([]float64{2, 9, 4}, []float64{1, 3, 1}); got != "3.00, 2.00 to 4.00" {
		t.Error(got)
	}
}

// TestWrite: a table takes the place of the one before, between its lines alone; a document without them stays as it is.
func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	for _, c := range []struct{ was, want, fails string }{
		{"a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n", "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n", ""},
		{"a\n<!-- begin x -->\nold\n", "a\n<!-- begin x -->\nold\n", "put them where the table belongs"},
		{"a\n", "a\n", "put them where the table belongs"},
	} {
		if err := os.WriteFile(file, []byte(c.was), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Write(file, "x", "new\n")
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%q: %v", c.was, err)
		}
		if got, _ := os.ReadFile(file); string(got) != c.want {
			t.Errorf("%q became %q", c.was, got)
		}
	}
}
