package transfer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
)

// lost is what a flight ends with that nobody gives the object: it is lost, unless a node that may have it lives and could
// not be reached. mu is held.
func (f *flight) lost() error {
	for _, err := range f.struck {
		var s *sourceError
		if errors.As(err, &s) && s.code == codeGone && !errors.Is(err, raysys.ErrNodeDead) {
			return fmt.Errorf("%w: no source gives it: %w", raysys.ErrUnreachable, reasons(f.struck))
		}
	}
	if len(f.struck) == 0 {
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
