package transfer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
)

// strike notes why a source, or those who name sources, gave nothing. mu is held.
func (f *flight) strike(why error) {
	if f.open == nil && mayHave(why) {
		f.open = why
	}
	if len(f.struck) < maxStruck { // the first ones say more than those that came back again and again
		f.struck = append(f.struck, why)
	}
}

const maxStruck = 32

// mayHave reports whether the object may be where it did not come from: at a node that lives and did not say that it has none,
// or at one that nobody could name.
func mayHave(why error) bool {
	var s *sourceError
	if !errors.As(why, &s) {
		return errors.Is(why, raysys.ErrUnreachable)
	}
	switch s.code {
	case codeLacks, codeVersion, codeCorrupt:
		return false
	case codeStarved, codeClosed: // it has only what others give it; what it has goes with it
		return false
	case codeGone:
		return !errors.Is(why, raysys.ErrNodeDead)
	}
	return true
}

// lost is what a flight ends with that nobody gives the object: it is lost, unless it may be somewhere. mu is held.
func (f *flight) lost() error {
	switch {
	case f.open != nil: // the others may say that they lost it: not so the error
		return fmt.Errorf("%w: no source gives it: %w (of all: %v)", raysys.ErrUnreachable, f.open, reasons(f.struck))
	case len(f.struck) == 0:
		return fmt.Errorf("%w: there is nobody to ask", raysys.ErrObjectLost)
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
