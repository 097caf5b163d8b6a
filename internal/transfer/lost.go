package transfer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
)

// strike records why a source, or Sources, gave nothing. mu is held.
func (f *flight) strike(why error) {
	if f.open == nil && mayHave(why) {
		f.open = why
	}
	if len(f.struck) < maxStruck { // the first errors explain more than those of repeated tries
		f.struck = append(f.struck, why)
	}
}

const maxStruck = 32

// mayHave reports whether the object may exist after the error why: at a node that lives and did not answer that it
// lacks it, or at one that could not be named.
func mayHave(why error) bool {
	var s *sourceError
	if !errors.As(why, &s) {
		return errors.Is(why, raysys.ErrUnreachable)
	}
	switch s.code {
	case codeLacks, codeVersion, codeCorrupt:
		return false
	case codeStarved, codeClosed: // it has only the chunks that others give it, and its own end with it
		return false
	case codeGone:
		return !errors.Is(why, raysys.ErrNodeDead)
	}
	return true
}

// lost is the error of a flight that found no source: the object is lost, unless a node may still have it. mu is
// held.
func (f *flight) lost() error {
	switch {
	case f.open != nil: // other sources may have lost the object; the error must not match that
		return fmt.Errorf("%w: no source gives it: %w (of all: %v)", raysys.ErrUnreachable, f.open, reasons(f.struck))
	case len(f.struck) == 0:
		return fmt.Errorf("%w: there is no node to ask", raysys.ErrObjectLost)
	}
	return fmt.Errorf("%w: no source gives it: %w", raysys.ErrObjectLost, reasons(f.struck))
}

// reasons are several errors on one line.
type reasons []error

func (r reasons) Error() string {
	texts := make([]string, len(r))
	for i, err := range r {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (r reasons) Unwrap() []error { return r }
