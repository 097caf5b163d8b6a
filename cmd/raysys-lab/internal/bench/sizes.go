package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/system"
)

// sizesReport is how many bytes one operation puts on the connection, so that the raw limit moves as many.
type sizesReport struct {
	Request int `json:"request_bytes"`
	Reply   int `json:"reply_bytes"`
}

// sizedOperations is how many operations are looked at. The median counts: now and then a frame of the connection's own
// is among them.
const sizedOperations = 301

// wireSizes counts the bytes in a cluster of its own, because counting costs time.
func wireSizes(ctx context.Context, p Plan, operation string) (r sizesReport, err error) {
	c := &cluster{name: clusterName(), plan: p}
	worker, err := c.launch(ctx)
	if err != nil {
		return r, err
	}
	if _, err := worker.ready(); err != nil {
		return r, err
	}
	caller, err := launch(ctx, p, childSizes, c.name, p.Consul, operation)
	if err != nil {
		return r, errors.Join(err, c.end())
	}
	if line, err := caller.line(); err != nil {
		return r, errors.Join(err, c.end())
	} else if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, errors.Join(fmt.Errorf("read sizes of %s: %w", operation, err), c.end())
	}
	return r, errors.Join(caller.end(), c.end(), c.sweep(ctx))
}

// sizeUp is the child that counts.
func sizeUp(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	var n counted
	p.Node = member(p.Node, args[0], args[1], "driver", system.Driver)
	standins.Of(p.Node.Cluster).Network = &countingTransport{link.TCP(link.TCPConfig{}), &n}
	return withOperation(ctx, p, args[2], func(_ context.Context, do func() error) error {
		var sent, received []int
		for range sizedOperations {
			s, r := n.out.Load(), n.in.Load()
			if err := do(); err != nil {
				return err
			}
			sent, received = append(sent, int(n.out.Load()-s)), append(received, int(n.in.Load()-r))
		}
		slices.Sort(sent)
		slices.Sort(received)
		r := sizesReport{sent[sizedOperations/2], received[sizedOperations/2]}
		if !frameSize(r.Request) || !frameSize(r.Reply) {
			return fmt.Errorf("a %s moved %d bytes there and %d back: raw frames have %d to %d", args[2], r.Request, r.Reply, frameMin, frameMax)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return sayWait(string(line)+"\n", in, out)
	})
}

// counted has the bytes that went over a node's connections.
type counted struct{ in, out atomic.Int64 }

// countingTransport is a transport that counts.
type countingTransport struct {
	link.Transport
	n *counted
}

// Listen implements link.Transport.
func (t *countingTransport) Listen(ctx context.Context, addr string) (net.Listener, error) {
	ln, err := t.Transport.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &countingListener{ln, t.n}, nil
}

// Dial implements link.Transport.
func (t *countingTransport) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := t.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{conn, t.n}, nil
}

type countingListener struct {
	net.Listener
	n *counted
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{conn, l.n}, nil
}

type countingConn struct {
	net.Conn
	n *counted
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.in.Add(int64(n))
	return n, err
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.out.Add(int64(n))
	return n, err
}
