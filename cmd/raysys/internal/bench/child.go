package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/raysys/raysys/system"
)

// ChildCommand is the hidden command under which a binary that measures child processes must call Child.
const ChildCommand = "bench-child"

// What a child does.
const (
	childNothing   = "nothing"    // say so, then wait for the end of its input
	childFirstTask = "first-task" // start a node, run one task, say so
	childIdleNode  = "idle-node"  // start a node, say so, then wait for the end of its input
	childGrains    = "grains"     // activate grains, write an idleReport, then wait for the end of its input
)

// Child is the process that a row started: args say what it does, its input ends when it should. Each begins with the
// same start of a binary, so that childNothing is the raw limit of the others.
func Child(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	what := ""
	if len(args) > 0 {
		what = args[0]
	}
	switch {
	case what == childNothing && len(args) == 1:
		return sayAndWait(in, out)
	case what == childFirstTask && len(args) == 1:
		return withNode(ctx, p, func(ctx context.Context, _ *system.Node) error {
			v, err := increment.Go(ctx, 1).Get(ctx)
			if err != nil {
				return err
			}
			if err := expect(v, raw(1)); err != nil {
				return err
			}
			return sayAndWait(in, out)
		})
	case what == childIdleNode && len(args) == 1:
		return withNode(ctx, p, func(context.Context, *system.Node) error { return sayAndWait(in, out) })
	case what == childGrains && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return &SelectionError{fmt.Sprintf("number of grains %q: give 1 or more", args[1])}
		}
		return idleGrains(ctx, p, n, func(rep idleReport) error {
			if err := json.NewEncoder(out).Encode(rep); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, in)
			return err
		})
	}
	return &SelectionError{fmt.Sprintf("%s is for the rows of raysys bench that need a process of their own: use raysys bench", ChildCommand)}
}

// readyLine is how a child says that it has come as far as its parent measures.
const readyLine = "ready\n"

// sayAndWait leaves the process as it is for as long as the parent looks at it.
func sayAndWait(in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, readyLine); err != nil {
		return fmt.Errorf("tell parent: %w", err)
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
