package schedule

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
)

// TestOutcomes: each sentinel of raysys has a row, so that who adds one sorts it.
func TestOutcomes(t *testing.T) {
	named, rows := selected(t, "../errors.go", "core"), selected(t, "outcome.go", "raysys")
	if len(named) < 30 {
		t.Fatalf("errors.go names %d sentinels", len(named))
	}
	for name := range named {
		if !rows[name] {
			t.Errorf("raysys.%s has no row in outcome.go", name)
		}
	}
}

// selected are the sentinels of a package that a file names.
func selected(t *testing.T, file, pkg string) map[string]bool {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Err") && s.Sel.Name != "ErrOwnFailure" {
			if of, ok := s.X.(*ast.Ident); ok && of.Name == pkg {
				names[s.Sel.Name] = true
			}
		}
		return true
	})
	return names
}

// TestTriedAgain: what is tried again, and what ends the firing.
func TestTriedAgain(t *testing.T) {
	own := func(err error) error { return &raysys.TaskError{Function: "f", Err: err} }
	for _, c := range []struct {
		err   error
		again bool
	}{
		{nil, false},
		{errors.New("no money"), false},
		{raysys.ErrNodeDead, true},
		{fmt.Errorf("call f: %w", raysys.ErrOverloaded), true},
		{own(raysys.ErrNodeDead), false}, // a call of the method's own has failed so
		{fmt.Errorf("retried: %w", own(raysys.ErrUnreachable)), false},
		{own(raysys.ErrPanic), false},
		{raysys.ErrCancelled, false},
		{fmt.Errorf("%w: %w", raysys.ErrCancelled, context.Canceled), false},
		{&core.Orphaned{Err: raysys.ErrCancelled}, true},
		{fmt.Errorf("%w: %w", raysys.ErrOutcomeUnknown, raysys.ErrNodeDead), true},
		{grainengine.ErrReplyGone, false},
		{grainengine.ErrUnsettled, false},
		{fmt.Errorf("%w: no database", grainengine.ErrActivation), false},
		{fmt.Errorf("%w: %w", grainengine.ErrActivation, raysys.ErrUnreachable), false}, // OnActivate has said so
		{fmt.Errorf("%w: %w: %w", grainengine.ErrActivation, grainengine.ErrNotLoaded, raysys.ErrSuspended), true},
		{fmt.Errorf("%w: %w: damaged", grainengine.ErrActivation, grainengine.ErrNotLoaded), false},
		{raysys.ErrDeadline, false},
		{raysys.ErrObjectLost, false},
		{raysys.ErrClosed, true},
	} {
		if got := triedAgain(c.err); got != c.again {
			t.Errorf("%v: tried again: %v, want %v", c.err, got, c.again)
		}
	}
}
