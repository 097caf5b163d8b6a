package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

type shortage struct {
	Need, Have int
}

func (s *shortage) Error() string { return fmt.Sprintf("need %d, have %d", s.Need, s.Have) }

type verdict struct{ Text string }

func (v verdict) Error() string { return v.Text }

type unregistered struct{ N int }

func (u *unregistered) Error() string { return "unregistered" }

var (
	errNoFunds = errors.New("no funds")
	_          = raysys.RegisterError("wire_test.no-funds", errNoFunds)
	_          = raysys.Register[*shortage]("wire_test.shortage")
	_          = raysys.Register[verdict]("wire_test.verdict")
)

// over sends err to the other side.
func over(t *testing.T, err error) error {
	t.Helper()
	r := wire.NewReader(wire.AppendError(nil, err))
	got := wire.ReadError(&r)
	if r.Err() != nil || r.Len() != 0 {
		t.Fatalf("%v: %v, %d bytes left", err, r.Err(), r.Len())
	}
	return got
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		is   []error
		not  []error
	}{
		{"sentinel", raysys.ErrOverloaded, []error{raysys.ErrOverloaded}, []error{raysys.ErrClosed, context.Canceled}},
		{"also standard", raysys.ErrDeadline, []error{raysys.ErrDeadline, context.DeadlineExceeded}, []error{context.Canceled}},
		{"wrapped", fmt.Errorf("call a/b: %w", raysys.ErrMoved), []error{raysys.ErrMoved}, []error{raysys.ErrClosed}},
		{"the program's own", fmt.Errorf("pay: %w", errNoFunds), []error{errNoFunds}, []error{raysys.ErrMoved}},
		{"joined", errors.Join(errNoFunds, raysys.ErrReleased), []error{errNoFunds, raysys.ErrReleased}, nil},
		{"two deep", fmt.Errorf("a: %w", fmt.Errorf("b: %w", errNoFunds)), []error{errNoFunds}, nil},
		{"of the standard library", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), []error{io.ErrUnexpectedEOF}, []error{io.EOF, errNoFunds}},
		{"not registered", fmt.Errorf("shut down: %w", http.ErrServerClosed), nil, []error{http.ErrServerClosed, errNoFunds}},
		{"by method", &raysys.PanicError{Value: 7}, []error{raysys.ErrPanic}, []error{raysys.ErrClosed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := over(t, c.err)
			if got.Error() != c.err.Error() {
				t.Errorf("text %q, want %q", got, c.err)
			}
			for _, s := range c.is {
				if !errors.Is(got, s) {
					t.Errorf("it is not %v any more", s)
				}
			}
			for _, s := range c.not {
				if errors.Is(got, s) {
					t.Errorf("it became %v", s)
				}
			}
		})
	}
}

func TestErrorTypes(t *testing.T) {
	in := fmt.Errorf("order 7: %w", errors.Join(&shortage{5, 3}, verdict{"guilty"}, &unregistered{1}))
	got := over(t, in)
	var s *shortage
	if !errors.As(got, &s) || *s != (shortage{5, 3}) {
		t.Errorf("shortage: %v", s)
	}
	var v verdict
	if !errors.As(got, &v) || v.Text != "guilty" {
		t.Errorf("verdict: %v", v)
	}
	var u *unregistered
	if errors.As(got, &u) {
		t.Error("a type that nobody registered arrived")
	}
	if got.Error() != in.Error() {
		t.Errorf("%q, want %q", got, in)
	}
	if got := over(t, &shortage{1, 0}); !errors.As(got, &s) || s.Need != 1 {
		t.Errorf("bare: %v", got)
	}
}

func TestTaskError(t *testing.T) {
	in := &raysys.TaskError{
		Task: raysys.TaskID{Hi: 1, Lo: 2}, Function: "pay", Node: "n1", Attempt: 3, Err: fmt.Errorf("x: %w", errNoFunds), Stack: []byte("stack"),
	}
	got, ok := over(t, in).(*raysys.TaskError)
	if !ok {
		t.Fatal("it is no TaskError")
	}
	if !errors.Is(got, errNoFunds) || got.Error() != in.Error() {
		t.Error(got)
	}
	a, b := *in, *got
	a.Err, b.Err = nil, nil
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
	var te *raysys.TaskError
	if w := over(t, fmt.Errorf("outer: %w", in)); !errors.As(w, &te) || te.Node != "n1" {
		t.Errorf("inside another: %v", w)
	}
	panicked := &raysys.TaskError{Function: "f", Attempt: 1, Err: &raysys.PanicError{Value: fmt.Errorf("p: %w", errNoFunds)}, Stack: []byte("s")}
	w := over(t, panicked)
	var pe *raysys.PanicError
	if !errors.Is(w, raysys.ErrPanic) || !errors.Is(w, errNoFunds) || !errors.As(w, &pe) || w.Error() != panicked.Error() {
		t.Error(w)
	}
}

type badError struct{}

func (badError) Error() string { panic("no text") }

func TestErrorsThatMisbehave(t *testing.T) {
	if got := over(t, badError{}); !strings.Contains(got.Error(), "panics") {
		t.Error(got)
	}
	deep := errors.New("bottom")
	for range 1000 {
		deep = &raysys.TaskError{Function: "f", Err: deep}
	}
	over(t, deep)
	long := over(t, errors.New(strings.Repeat("x", 1<<20)))
	if len(long.Error()) > 20<<10 {
		t.Errorf("%d bytes of text", len(long.Error()))
	}
}

// TestErrorsAreBounded: an error with more in it than AppendError writes is corrupt. To read it would take the square of its size.
func TestErrorsAreBounded(t *testing.T) {
	uvarint := func(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }
	leaf := []byte{0, 0, 0, 0} // plain, no text, no sentinel, no part
	const most = 64
	of := func(names, parts int) []byte {
		b := uvarint([]byte{0, 0}, uint64(names))
		for range names {
			b = wire.AppendBytes(b, "no such name")
		}
		b = uvarint(b, uint64(parts))
		return append(b, bytes.Repeat(leaf, parts)...)
	}
	nested := func() []byte { // 64 of 64: each level is within its bound, and all together are not
		b := uvarint([]byte{0, 0, 0}, most)
		return append(b, bytes.Repeat(of(0, most), most)...)
	}
	for name, c := range map[string]struct {
		frame []byte
		ok    bool
	}{
		"most": {of(most, most), true}, "parts": {of(0, most+1), false}, "names": {of(most+1, 0), false}, "many parts": {of(0, 160_000), false}, "nested": {nested(), false},
	} {
		r := wire.NewReader(c.frame)
		if err := wire.ReadError(&r); errors.Is(err, wire.ErrCorrupt) == c.ok {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	// What has more than that still arrives, as text.
	var all []error
	for range 100 {
		var inner []error
		for range 100 {
			inner = append(inner, verdict{"v"})
		}
		all = append(all, &raysys.TaskError{Function: "f", Err: errors.Join(inner...)})
	}
	if err := over(t, errors.Join(all...)); !strings.Contains(err.Error(), "v") || errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("%.200v", err)
	}
}

func FuzzReadError(f *testing.F) {
	for _, err := range []error{
		raysys.ErrClosed, &shortage{1, 2}, &raysys.TaskError{Function: "f", Err: errNoFunds},
		&raysys.PanicError{Value: "x"}, errors.Join(errNoFunds, verdict{"v"}),
	} {
		f.Add(wire.AppendError(nil, err))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		if err := wire.ReadError(&r); err == nil {
			t.Error("no error")
		} else if r.Err() == nil {
			_ = err.Error()
			errors.Is(err, errNoFunds)
		}
	})
}
