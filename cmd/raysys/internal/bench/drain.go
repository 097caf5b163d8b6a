package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
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
	ln   net.Listener
	data []byte
	all  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	conns []net.Conn
	shut  bool
}

// listenRaw listens on loopback, plain or with the node's certificate.
func listenRaw(ctx context.Context, certs, node string) (net.Listener, error) {
	if certs == "" {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	f := certified(certs, node)
	t, err := link.LoadTLS(f.Cert, f.Key, f.CA)
	if err != nil {
		return nil, err
	}
	return t.Listen(ctx, "127.0.0.1:0")
}

func dialRaw(ctx context.Context, certs, node, address string) (net.Conn, error) {
	if certs == "" {
		return net.Dial("tcp", address)
	}
	f := certified(certs, node)
	t, err := link.LoadTLS(f.Cert, f.Key, f.CA)
	if err != nil {
		return nil, err
	}
	return t.Dial(ctx, address)
}

func newSpring(ctx context.Context, certs string, data []byte) (*spring, error) {
	ln, err := listenRaw(ctx, certs, "driver")
	if err != nil {
		return nil, fmt.Errorf("listen for raw streams: %w", err)
	}
	s := &spring{ln: ln, data: data}
	s.all.Go(s.accept)
	return s, nil
}

func (s *spring) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.shut {
			s.mu.Unlock()
			conn.Close()
			return
		}
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		s.all.Go(func() {
			defer conn.Close()
			for ask := make([]byte, 1); ; {
				if _, err := io.ReadFull(conn, ask); err != nil {
					return
				}
				if _, err := conn.Write(s.data); err != nil {
					return // the reading end reports the missing bytes
				}
			}
		})
	}
}

func (s *spring) close() {
	s.ln.Close()
	s.mu.Lock()
	s.shut = true
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// beDrain is the child that reads: ADDRESS BYTES CERTS NODE. Its parent writes the kind of memory, a line each, and
// gets the nanoseconds that it took.
func beDrain(ctx context.Context, _ Plan, args []string, in io.Reader, out io.Writer) error {
	n, err := positive("bytes of a stream", args[1])
	if err != nil {
		return err
	}
	conn, err := dialRaw(ctx, args[2], args[3], args[0])
	if err != nil {
		return fmt.Errorf("connect to the raw end: %w", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(out, readyLine); err != nil {
		return fmt.Errorf("tell parent: %w", err)
	}
	var warm []byte
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var to []byte
		switch what := lines.Text(); {
		case what == intoHeap:
			to = make([]byte, n)
		case what == intoFresh || what == intoWarm && warm == nil:
			if to, err = fresh(n); err != nil {
				return err
			}
			warm = to
		case what == intoWarm:
			to = warm
		default:
			return fmt.Errorf("parent wrote %q, which is no memory", what)
		}
		begin := time.Now()
		if _, err := conn.Write([]byte{1}); err != nil {
			return fmt.Errorf("ask the raw end: %w", err)
		}
		if _, err := io.ReadFull(conn, to); err != nil {
			return fmt.Errorf("read from the raw end: %w", unexpected(err))
		}
		took := time.Since(begin)
		if to[0] != 1 {
			return errors.New("the raw end wrote something else")
		}
		if _, err := fmt.Fprintln(out, int64(took)); err != nil {
			return fmt.Errorf("tell parent: %w", err)
		}
	}
	return nil
}

// launchDrain starts one.
func launchDrain(ctx context.Context, p Plan, s *spring, certs, node string) (*process, error) {
	return launchReady(ctx, p, anywhere, childDrain, s.ln.Addr().String(), strconv.Itoa(len(s.data)), certs, node)
}

// drain has it read once.
func (c *process) drain(into string) (time.Duration, error) {
	if _, err := fmt.Fprintln(c.in, into); err != nil {
		return 0, fmt.Errorf("tell child to read: %w", err)
	}
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Duration(ns), err
}

// tempDir makes a directory for files that children read, and returns a function that removes it.
func tempDir() (string, func() error, error) {
	dir, err := os.MkdirTemp("", "raysys-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
