package figures

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// TestInTurn: each side is measured once a round, each of them first in its turn; an error ends it.
func TestInTurn(t *testing.T) {
	var order []int
	loads, err := InTurn(3, 2, func(round, side int) error {
		order = append(order, 10*round+side)
		return nil
	})
	if want := []int{0, 1, 11, 10, 20, 21}; err != nil || len(loads) != 3 || !slices.Equal(order, want) {
		t.Errorf("%v, %v, %v, want %v", order, loads, err, want)
	}
	n, bad := 0, errors.New("bad")
	_, err = InTurn(3, 2, func(int, int) error {
		n++
		return bad
	})
	if n != 1 || err != bad {
		t.Error(n, err)
	}
}

// TestLaunch: a process is ready with its first line, and ends with its input; one that ends before says why.
func TestLaunch(t *testing.T) {
	line, end, err := Launch(exec.Command("sh", "-c", "echo here; cat"))
	if err != nil || line != "here" {
		t.Fatal(line, err)
	}
	end()
	_, _, err = Launch(exec.Command("sh", "-c", "echo no room >&2"))
	if err == nil || !strings.Contains(err.Error(), "does not become ready: EOF: no room") {
		t.Error(err)
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
