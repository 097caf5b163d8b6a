package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/raysys/raysys/internal/link"
)

// The raw limit of moving an object between processes: one connection, on which as many bytes are written at once and
// read into memory of the same kind as the object's. Nothing is checked.

// Memory that a drain reads into.
const (
	intoFresh = "fresh" // given by the kernel for this
	intoWarm  = "warm"  // that of intoFresh again
	intoHeap  = "heap"  // the collector's, made for this
)

// spring is the writing end: whoever asks on a connection gets data.
type spring struct {
	*rawServer
	data []byte
}

// rawTransport is plain TCP, or TLS with the node's certificate.
func rawTransport(certs, node string) (link.Transport, error) {
	if certs == "" {
		return link.TCP(link.TCPConfig{}), nil
	}
	f := certified(certs, node)
	return link.LoadTLS(f.Cert, f.Key, f.CA)
}

func newSpring(ctx context.Context, certs string, data []byte) (*spring, error) {
	t, err := rawTransport(certs, "driver")
	if err != nil {
		return nil, fmt.Errorf("listen for raw streams: %w", err)
	}
	ln, err := t.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for raw streams: %w", err)
	}
	return &spring{newRawServer(ln, func(conn net.Conn) error {
		for ask := make([]byte, 1); ; {
			if _, err := io.ReadFull(conn, ask); err != nil {
				return err
			}
			if _, err := conn.Write(data); err != nil {
				return err
			}
		}
	}), data}, nil
}

// beDrain is the child that reads: ADDRESS BYTES CERTS NODE. Its parent writes the kind of memory, a line each, and
// gets the nanoseconds that it took.
func beDrain(ctx context.Context, _ Plan, args []string, in io.Reader, out io.Writer) error {
	n, err := positive("bytes of a stream", args[1])
	if err != nil {
		return err
	}
	t, err := rawTransport(args[2], args[3])
	if err != nil {
		return fmt.Errorf("connect to the raw end: %w", err)
	}
	conn, err := t.Dial(ctx, args[0])
	if err != nil {
		return fmt.Errorf("connect to the raw end: %w", err)
	}
	defer conn.Close()
	var warm []byte
	return answerLines(in, out, func(what string) (string, error) {
		var to []byte
		switch {
		case what == intoHeap:
			to = make([]byte, n)
		case what == intoFresh || what == intoWarm && warm == nil:
			var err error
			if to, err = fresh(n); err != nil {
				return "", err
			}
			warm = to
		case what == intoWarm:
			to = warm
		default:
			return "", fmt.Errorf("parent wrote %q, which is no memory", what)
		}
		begin := time.Now()
		if _, err := conn.Write([]byte{1}); err != nil {
			return "", fmt.Errorf("ask the raw end: %w", err)
		}
		if _, err := io.ReadFull(conn, to); err != nil {
			return "", fmt.Errorf("read from the raw end: %w", unexpected(err))
		}
		took := time.Since(begin)
		if to[0] != 1 {
			return "", errors.New("the raw end wrote something else")
		}
		return strconv.FormatInt(int64(took), 10), nil
	})
}

// launchDrain starts one.
func launchDrain(ctx context.Context, p Plan, s *spring, certs, node string) (*process, error) {
	return launchReady(ctx, p, anywhere, childDrain, s.address(), strconv.Itoa(len(s.data)), certs, node)
}

// drain has it read once.
func (c *process) drain(into string) (time.Duration, error) {
	line, err := c.ask(into)
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(line, 10, 64)
	return time.Duration(ns), err
}
