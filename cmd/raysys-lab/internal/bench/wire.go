package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
)

// The raw limit of messages between processes: frames of a length and a number over TCP, each answered with raw of the
// number. There are no ids, no classes, no credits, no futures.
const (
	frameHead = 4 // the length of the rest
	frameMin  = frameHead + 8
	frameMax  = 64 << 10
)

// echo is the other end of the raw connections, in a process of its own. It answers each frame with one of answer
// bytes, or of the same length when answer is 0, and writes when there is nothing more to read.
type echo struct {
	*rawServer
	answer int
}

// listenEcho begins to answer, on a free port of loopback.
func listenEcho(answer int) (*echo, error) {
	if answer != 0 && !frameSize(answer) {
		return nil, fmt.Errorf("raw answers of %d bytes: %d to %d are allowed", answer, frameMin, frameMax)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &echo{answer: answer}
	e.rawServer = newRawServer(ln, e.serve)
	return e, nil
}

// serve answers one connection.
func (e *echo) serve(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, frameMax)
	var out []byte
	for {
		n, err := readFrame(in)
		if err != nil {
			return err
		}
		size := e.answer
		if size == 0 {
			size = n.size
		}
		out = appendFrame(out, size, raw(n.value))
		if in.Buffered() > 0 && len(out) < frameMax {
			continue
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
}

func frameSize(n int) bool { return n >= frameMin && n <= frameMax }

type frame struct {
	size  int // all of it
	value int
}

// readFrame reads one frame from a reader that holds frameMax bytes.
func readFrame(in *bufio.Reader) (frame, error) {
	head, err := in.Peek(frameMin)
	if err != nil {
		return frame{}, err
	}
	size := frameHead + int(binary.LittleEndian.Uint32(head))
	if !frameSize(size) {
		return frame{}, fmt.Errorf("raw frame of %d bytes: %d to %d are allowed", size, frameMin, frameMax)
	}
	f := frame{size, int(binary.LittleEndian.Uint64(head[frameHead:]))}
	if _, err := in.Discard(size); err != nil {
		return frame{}, err
	}
	return f, nil
}

func appendFrame(to []byte, size, value int) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(size-frameHead))
	to = binary.LittleEndian.AppendUint64(to, uint64(value))
	return append(to, zeros[:size-frameMin]...)
}

var zeros [frameMax]byte

// caller is the asking end of a raw connection.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	size int // of a frame that asks
}

// dialEcho connects to the echo at address; its frames have size bytes, head included.
func dialEcho(address string, size int) (*caller, error) {
	if !frameSize(size) {
		return nil, fmt.Errorf("raw frames of %d bytes: %d to %d are allowed", size, frameMin, frameMax)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the raw end: %w", err)
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, frameMax), size: size}, nil
}

// batch sends n frames with 0, 1, 2... in one write and reads the n answers. Together they have to fit the buffers of a
// connection, because nothing is read meanwhile.
func (c *caller) batch(n int) error {
	c.out = c.out[:0]
	for i := range n {
		c.out = appendFrame(c.out, c.size, i)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	for i := range n {
		f, err := readFrame(c.in)
		if err != nil {
			return fmt.Errorf("read answer of the raw end: %w", unexpected(err))
		}
		if err := expect(f.value, raw(i)); err != nil {
			return err
		}
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *caller) close() { c.conn.Close() }

// bulkTail measures small calls while large objects go the same way, beside the same calls while nothing does.
func bulkTail(ctx context.Context, p Plan) (m measured, err error) {
	p.Slice *= 4 // a p99 wants more than a median
	data := pattern(p.size(bulkBytes))
	m = measured{
		latency: &hist{}, latencyOf: "one grain call during transfers", limit: "p99 of the same call with nothing else under way",
	}
	var idles, bareIdles, bareBusies, moved []float64
	err = withObjects(ctx, p, 1, options{NoSharing: true}, func(driver context.Context, c *cluster) (err error) {
		b, err := newBareBulk(ctx, p, data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		g := counters.Get("bulk")
		if err := c.elsewhere(driver, g); err != nil {
			return err
		}
		call := one(func() error { _, err := add.Call(driver, g, 1).Get(driver); return err })
		for round := range p.Rounds + 1 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			idle, busy, bareIdle, bareBusy := &hist{}, &hist{}, &hist{}, &hist{}
			if _, err := call.loop(p.Slice, idle); err != nil {
				return err
			}
			n, err := during(func() error { _, err := call.loop(p.Slice, busy); return err }, func() error { return c.carry(driver, data) })
			if err != nil {
				return err
			}
			if err := c.empty(driver); err != nil {
				return err
			}
			if _, err := b.ping.loop(p.Slice, bareIdle); err != nil {
				return err
			}
			if _, err := during(func() error { _, err := b.ping.loop(p.Slice, bareBusy); return err }, b.stream); err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			p99 := func(h *hist) float64 { return us(h.quantile(0.99)) }
			m.rounds, m.limits = append(m.rounds, p99(busy)), append(m.limits, p99(idle))
			m.latency.merge(busy)
			idles, moved = append(idles, us(idle.quantile(0.5))), append(moved, float64(n))
			bareIdles, bareBusies = append(bareIdles, p99(bareIdle)), append(bareBusies, p99(bareBusy))
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("bytes", sized(len(data)))
	m.note("transfers_per_round", figures(median(moved)))
	m.note("idle_p50_us", figures(median(idles)))
	m.note("raw", map[string]any{
		"idle_p99_us": figures(median(bareIdles)), "during_p99_us": figures(median(bareBusies)), "ratio": figures(median(bareBusies) / median(bareIdles)),
		"of": "TCP ping-pong to another process, during raw streams of as many bytes to a third on the same CPUs",
	})
	return m, err
}

// during runs do while other is run again and again, and returns how often that was. One that has begun is waited for.
func during(do, other func() error) (n int, err error) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	began := make(chan struct{})
	go func() { // ends when stop is closed, and is waited for
		close(began)
		for {
			if err := other(); err != nil {
				ended <- err
				return
			}
			n++
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
		}
	}()
	<-began
	err = do()
	close(stop)
	return n, errors.Join(err, <-ended)
}

// carry moves data to the worker once.
func (c *cluster) carry(driver context.Context, data []byte) error {
	ref := raysys.Put(driver, data)
	defer ref.Release()
	_, err := c.look(driver, c.names[0], data, glance{Object: ref.Handle()})
	return err
}

// bareBulk is the raw side.
type bareBulk struct {
	echoes *echoes
	ping   side
	spring *spring
	drain  *process
}

func newBareBulk(ctx context.Context, p Plan, data []byte) (b *bareBulk, err error) {
	b = &bareBulk{}
	if b.echoes, err = newEchoes(ctx, p, 1); err != nil {
		return nil, err
	}
	b.ping = one(func() error { return b.echoes.callers[0].batch(1) })
	if b.spring, err = newSpring(ctx, "", data); err == nil {
		b.drain, err = launchDrain(ctx, p, b.spring, "", "")
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bareBulk) stream() error {
	took, err := b.drain.drain(intoWarm)
	if err == nil && took <= 0 {
		err = fmt.Errorf("a stream took %v", time.Duration(took))
	}
	return err
}

func (b *bareBulk) close() error {
	err := b.echoes.close()
	if b.drain != nil {
		err = errors.Join(err, b.drain.end())
	}
	if b.spring != nil {
		b.spring.close()
	}
	return err
}

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

// rawServer is the answering end of raw connections.
type rawServer struct {
	ln   net.Listener
	talk func(conn net.Conn) error // its error shows at the asking end, which sees the connection close
	all  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	conns []net.Conn
	shut  bool
}

func newRawServer(ln net.Listener, talk func(conn net.Conn) error) *rawServer {
	s := &rawServer{ln: ln, talk: talk}
	s.all.Go(s.accept)
	return s
}

func (s *rawServer) address() string { return s.ln.Addr().String() }

func (s *rawServer) accept() {
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
			_ = s.talk(conn)
		})
	}
}

func (s *rawServer) close() {
	s.ln.Close()
	s.mu.Lock()
	s.shut = true
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}
