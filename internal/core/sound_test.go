package core_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

type (
	knot  struct{ inner error } // Unwrap panics for nil
	tree  struct{ depth int }
	liar  struct{ method string }
	chain struct{ n int }
)

func (*knot) Error() string   { return "knot" }
func (k *knot) Unwrap() error { return k.inner }
func (tree) Error() string    { return "tree" }

func (w tree) Unwrap() []error {
	if w.depth == 0 {
		return nil
	}
	return []error{tree{w.depth - 1}, tree{w.depth - 1}}
}

func (l liar) Error() string   { return l.lie("Error", "liar") }
func (l liar) Is(error) bool   { return l.lie("Is", "") != "" }
func (l liar) As(any) bool     { return l.lie("As", "") != "" }
func (l liar) Unwrap() []error { l.lie("Unwrap", ""); return []error{nil, fs.ErrExist} }

func (l liar) lie(method, value string) string {
	if l.method == method {
		panic("no")
	}
	return value
}

func (chain) Error() string   { return "chain" }
func (c chain) Unwrap() error { return chain{c.n + 1} }

func looped() error {
	k := &knot{}
	k.inner = fmt.Errorf("outer: %w", &knot{k})
	return k
}

func wrapped(n int) error {
	err := fs.ErrExist
	for range n {
		err = fmt.Errorf("w: %w", err)
	}
	return err
}

func joined(n int) error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = fs.ErrExist
	}
	return errors.Join(errs...)
}

// TestSound: an error that can be used as one stays itself; every other has its text, and says what it does.
func TestSound(t *testing.T) {
	var pathError *fs.PathError
	for _, good := range []error{
		nil, fs.ErrExist, &fs.PathError{Op: "open", Path: "x", Err: fs.ErrExist}, wrapped(100), joined(999), liar{}, &knot{fs.ErrExist},
	} {
		if got := core.Sound(good); got != good && fmt.Sprint(got) != fmt.Sprint(good) || good != nil && !errors.Is(got, fs.ErrExist) {
			t.Errorf("%v became %v", good, got)
		}
	}
	for name, c := range map[string]struct {
		err  error
		text string
		does string
	}{
		"typed nil":        {(*knot)(nil), "knot", "its method Unwrap panics: runtime error"},
		"nil without text": {pathError, "a nil *fs.PathError as an error", "its method Unwrap panics: runtime error"},
		"typed nil inside": {fmt.Errorf("outer: %w", &knot{(*knot)(nil)}), "outer: knot", "its method Unwrap panics"},
		"wraps itself":     {looped(), "an error of type *core_test.knot", "it wraps itself"},
		"wide":             {tree{34}, "tree", "it wraps more than 1000 others"},
		"endless":          {chain{}, "chain", "it wraps others 100 deep"},
		"deep":             {wrapped(20_000), "w: w: ", "it wraps others 100 deep"},
		"joined":           {joined(1000), "file already exists\nfile", "it wraps more than 1000 others"},
		"Is":               {fmt.Errorf("outer: %w", liar{"Is"}), "outer: liar", "its method Is panics: no"},
		"As":               {liar{"As"}, "liar", "its method As panics: no"},
		"Unwrap":           {liar{"Unwrap"}, "liar", "its method Unwrap panics: no"},
		"Error":            {liar{"Error"}, "an error of type core_test.liar", "its method Error panics: no"},
	} {
		got := core.Sound(c.err)
		if text := got.Error(); !strings.HasPrefix(text, c.text) || !strings.Contains(text, c.does) || len(text) > 20_000 {
			t.Errorf("%s: %.200q, want %q and %q", name, text, c.text, c.does)
		}
		if errors.Unwrap(got) != nil || core.Sound(got) != got {
			t.Errorf("%s: %v is not sound", name, got)
		}
	}
	if got := core.SoundPanic(looped()).(error); !strings.Contains(got.Error(), "wraps itself") {
		t.Error(got)
	}
	if got := core.SoundPanic(7); got != 7 {
		t.Error(got)
	}
}
