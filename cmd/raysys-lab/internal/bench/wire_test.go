package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestFrames(t *testing.T) {
	var b []byte
	want := []frame{{frameMin, 7}, {100, -1}, {frameMax, 1 << 40}, {frameMin, 0}}
	for _, f := range want {
		b = appendFrame(b, f.size, f.value)
	}
	in := bufio.NewReaderSize(bytes.NewReader(b), frameMax)
	for _, f := range want {
		if got, err := readFrame(in); err != nil || got != f {
			t.Errorf("frame is %+v, %v; want %+v", got, err, f)
		}
	}
	if f, err := readFrame(in); err != io.EOF {
		t.Errorf("after the last frame: %+v, %v", f, err)
	}
	for _, length := range []uint32{0, frameMin - frameHead - 1, frameMax, 1 << 31} {
		bad := append(binary.LittleEndian.AppendUint32(nil, length), make([]byte, 100)...)
		if f, err := readFrame(bufio.NewReaderSize(bytes.NewReader(bad), frameMax)); err == nil {
			t.Errorf("a frame of length %d is read as %+v", length, f)
		}
	}
}

func TestEcho(t *testing.T) {
	for _, c := range []struct{ ask, answer, want int }{{frameMin, 0, frameMin}, {40, 0, 40}, {33, 90, 90}} {
		e, err := listenEcho(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", e.address())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(appendFrame(nil, c.ask, 41)); err != nil {
			t.Fatal(err)
		}
		if f, err := readFrame(bufio.NewReaderSize(conn, frameMax)); err != nil || f != (frame{c.want, raw(41)}) {
			t.Errorf("asked with %d bytes: answer %+v, %v; want %d bytes", c.ask, f, err, c.want)
		}
		conn.Close()
		e.close()
	}
}

// recorded is a connection on which everything has arrived already.
type recorded struct {
	net.Conn
	in     io.Reader
	writes []int
}

func (r *recorded) Read(b []byte) (int, error) { return r.in.Read(b) }

func (r *recorded) Write(b []byte) (int, error) {
	r.writes = append(r.writes, len(b))
	return len(b), nil
}

// What came together is answered together, as far as it fits.
func TestEchoCoalesces(t *testing.T) {
	var asked []byte
	for i := range batch {
		asked = appendFrame(asked, frameMin, i)
	}
	r := &recorded{in: bytes.NewReader(asked)}
	if err := (&echo{}).serve(r); err != io.EOF {
		t.Errorf("after the last frame: %v", err)
	}
	if len(r.writes) != 1 || r.writes[0] != len(asked) {
		t.Errorf("a batch is answered in writes of %v bytes, want one of %d", r.writes, len(asked))
	}
}

// A raw limit that is slow or measures nothing would make every ratio look good.
func TestEchoIsTheLimit(t *testing.T) {
	e, err := listenEcho(0)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	c, err := dialEcho(e.address(), frameMin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	counted := &writes{Conn: c.conn}
	c.conn = counted
	for range 10 {
		if err := c.batch(batch); err != nil {
			t.Fatal(err)
		}
	}
	if counted.n != 10 {
		t.Errorf("10 batches took %d writes: batches are not sent as one", counted.n)
	}
	var single hist
	if _, err := one(func() error { return c.batch(1) }).loop(50*time.Millisecond, &single); err != nil {
		t.Fatal(err)
	}
	if p50 := single.quantile(0.5); p50 < time.Microsecond {
		t.Errorf("a round trip over TCP takes %v: it goes nowhere", p50)
	}
}

func TestEchoRefuses(t *testing.T) {
	if e, err := listenEcho(frameMin - 1); err == nil {
		e.close()
		t.Error("answers too short for a number are promised")
	}
	e, err := listenEcho(0)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := dialEcho(e.address(), frameMax+1); err == nil {
		c.close()
		t.Error("frames beyond the buffer are promised")
	}
	hostile, err := net.Dial("tcp", e.address())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hostile.Write(bytes.Repeat([]byte{0xff}, frameMin)); err != nil {
		t.Fatal(err)
	}
	if n, err := hostile.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a bad frame is answered: %d bytes, %v", n, err)
	}
	hostile.Close()

	c, err := dialEcho(e.address(), frameMin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.batch(1); err != nil {
		t.Fatal(err)
	}
	e.close()
	if err := c.batch(1); err == nil || !strings.Contains(err.Error(), "raw end") && !strings.Contains(err.Error(), "write") {
		t.Errorf("an echo that is gone: %v", err)
	}
	if _, err := dialEcho(e.address(), frameMin); err == nil || !strings.Contains(err.Error(), "connect to the raw end") {
		t.Errorf("an echo that does not listen: %v", err)
	}
}

// The answer is checked, so that a raw end that does not do the work is no limit.
func TestWrongAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			_, err = io.CopyN(conn, conn, frameMin) // what came, not what follows from it
		}
		done <- err
	}()
	c, err := dialEcho(ln.Addr().String(), frameMin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.batch(1); err == nil || !strings.Contains(err.Error(), "wrong result") {
		t.Errorf("a wrong answer: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// writes counts what is written to a connection.
type writes struct {
	net.Conn
	n int
}

func (w *writes) Write(b []byte) (int, error) {
	w.n++
	return w.Conn.Write(b)
}
