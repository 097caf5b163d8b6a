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

// The commands of a child. It obeys lines of its input where its command says so, and waits for the end of its input.
const (
	childNothing   = "nothing"    // say so
	childFirstTask = "first-task" // start a node, run one task, say so
	childIdleNode  = "idle-node"  // start a node, say so
	childGrains    = "grains"     // N: activate grains, write an idleReport
	childWorker    = "worker"     // CLUSTER CONSUL NAME OPTIONS: join as a worker, say so
	childEcho      = "echo"       // BYTES: be the raw end of connections, say where
	childPing      = "ping"       // ADDRESS BYTES: measure a raw ping-pong
	childCaller    = "caller"     // CLUSTER CONSUL OPERATION: join as a driver, measure the operation
	childDrain     = "drain"      // ADDRESS BYTES CERTS NODE: read raw streams when the input says so, write how long it took
	childMap       = "map"        // map files when the input says so, write how long it took
	childSizes     = "sizes"      // CLUSTER CONSUL OPERATION: join as a driver, write a sizesReport of the operation
)

// child is one thing that a child does.
type child struct {
	args int // how many arguments it takes
	run  func(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error
}

func children() map[string]child {
	return map[string]child{
		childNothing: {0, func(_ context.Context, _ Plan, _ []string, in io.Reader, out io.Writer) error {
			return sayAndWait(in, out)
		}},
		childFirstTask: {0, firstTask},
		childIdleNode: {0, func(ctx context.Context, p Plan, _ []string, in io.Reader, out io.Writer) error {
			return withNode(ctx, p, func(context.Context, *system.Node) error { return sayAndWait(in, out) })
		}},
		childGrains: {1, holdGrains},
		childWorker: {4, work},
		childEcho:   {1, beEcho},
		childPing:   {2, pingEcho},
		childCaller: {3, callAcross},
		childDrain:  {4, beDrain},
		childMap:    {0, beMapper},
		childSizes:  {3, sizeUp},
	}
}

// Child is the process that a row started. args are its command, and it ends with its input. All begin with the same
// start of a binary, so that childNothing is the raw limit of the others.
func Child(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		if c, ok := children()[args[0]]; ok && len(args)-1 == c.args {
			return c.run(ctx, p, args[1:], in, out)
		}
	}
	return &SelectionError{fmt.Sprintf("%s is for the rows of raysys-lab bench that need a process of their own: use raysys-lab bench", ChildCommand)}
}

func firstTask(ctx context.Context, p Plan, _ []string, in io.Reader, out io.Writer) error {
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
}

func holdGrains(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	n, err := positive("number of grains", args[0])
	if err != nil {
		return err
	}
	return idleGrains(ctx, p, n, func(rep idleReport) error {
		if err := json.NewEncoder(out).Encode(rep); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, in)
		return err
	})
}

// positive reads an argument.
func positive(what, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, &SelectionError{fmt.Sprintf("%s %q: give 1 or more", what, s)}
	}
	return n, nil
}

// readyLine is how a child says that it has come as far as its parent measures.
const readyLine = "ready\n"

// sayAndWait leaves the process as it is for as long as the parent looks at it.
func sayAndWait(in io.Reader, out io.Writer) error { return sayWait(readyLine, in, out) }

func sayWait(line string, in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, line); err != nil {
		return fmt.Errorf("tell parent: %w", err)
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
