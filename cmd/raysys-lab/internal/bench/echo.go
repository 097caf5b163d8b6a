package bench

import (
	"context"
	"io"
	"strconv"
)

const echoName = "framed TCP echo between two processes, batches of 1000 frames of 12 bytes"

// beEcho is the child that is the other end of raw connections.
func beEcho(_ context.Context, _ Plan, args []string, in io.Reader, out io.Writer) error {
	answer, err := strconv.Atoi(args[0])
	if err != nil {
		return &SelectionError{"bytes of an answer: give 0 for as many as were asked with"}
	}
	e, err := listenEcho(answer)
	if err != nil {
		return err
	}
	defer e.close()
	return sayWait(e.address()+"\n", in, out)
}

// pingEcho is the child that asks one frame after the other.
func pingEcho(ctx context.Context, _ Plan, args []string, in io.Reader, out io.Writer) error {
	size, err := positive("bytes of a frame", args[1])
	if err != nil {
		return err
	}
	c, err := dialEcho(args[0], size)
	if err != nil {
		return err
	}
	defer c.close()
	return measureOnDemand(ctx, one(func() error { return c.batch(1) }), in, out)
}

// echoes is the raw limit of the rows with many operations in flight: connections to an echo in another process.
type echoes struct {
	child   *process
	callers []*caller
}

func newEchoes(ctx context.Context, p Plan, connections int) (e *echoes, err error) {
	child, address, err := launchEcho(ctx, p, anywhere, 0)
	if err != nil {
		return nil, err
	}
	e = &echoes{child: child}
	for range connections {
		c, err := dialEcho(address, frameMin)
		if err != nil {
			_ = e.close() // the connection's error says more
			return nil, err
		}
		e.callers = append(e.callers, c)
	}
	return e, nil
}

func launchEcho(ctx context.Context, p Plan, cpu, answer int) (*process, string, error) {
	child, err := launchOn(ctx, p, cpu, childEcho, strconv.Itoa(answer))
	if err != nil {
		return nil, "", err
	}
	address, err := child.line()
	return child, address, err
}

func (e *echoes) close() error {
	for _, c := range e.callers {
		c.close()
	}
	return e.child.end()
}
