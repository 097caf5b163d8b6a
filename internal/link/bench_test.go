package link_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// pair returns two nodes over loopback TCP; what comes back to the first goes to got.
func pair(b *testing.B, got func()) *link.Peer {
	b.Helper()
	tcp := func(raysys.NodeID) link.Transport { return link.TCP(link.TCPConfig{}) }
	x := open(b, "a", tcp("a"), func(c *link.Config) {
		c.Handlers[kindNote] = func(*link.Peer, wire.Class, []byte) { got() }
	})
	y := open(b, "b", tcp("b"))
	p, err := x.Connect(b.Context(), "b", y.Addr())
	if err != nil {
		b.Fatal(err)
	}
	return p
}

const small = 48 // bytes of payload, about those of a small task

// BenchmarkEcho: frames there and back with 1024 in flight, from one goroutine.
func BenchmarkEcho(b *testing.B) {
	var back atomic.Int64
	room := sync.NewCond(&sync.Mutex{})
	waits := false
	p := pair(b, func() {
		if n := back.Add(1); n%256 == 0 {
			room.L.Lock()
			if waits {
				room.Signal()
			}
			room.L.Unlock()
		}
	})
	payload := make([]byte, small)
	b.SetBytes(small)
	b.ReportAllocs()
	sent := int64(0)
	wait := func(inFlight int64) {
		p.Flush()
		room.L.Lock()
		waits = true
		for sent-back.Load() > inFlight {
			room.Wait()
		}
		waits = false
		room.L.Unlock()
	}
	for b.Loop() {
		if sent-back.Load() >= 1024 {
			wait(512)
		}
		if err := p.Send(wire.Requests, kindEcho, payload); err != nil {
			b.Fatal(err)
		}
		sent++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mframes/s")
	for sent%256 != 0 { // the handler tells of every 256th
		p.Send(wire.Requests, kindEcho, payload)
		sent++
	}
	wait(0)
}

// BenchmarkRawEcho is its limit: the same bytes over TCP, framed by their length, written 64 KiB at a time.
func BenchmarkRawEcho(b *testing.B) {
	conn := rawServer(b, func(c net.Conn) {
		r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
		var frame [8 + small]byte
		for {
			if _, err := io.ReadFull(r, frame[:]); err != nil || binary.LittleEndian.Uint32(frame[:]) != small {
				return
			}
			w.Write(frame[:])
			if r.Buffered() == 0 {
				w.Flush()
			}
		}
	})
	r, w := bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)
	var frame, back [8 + small]byte
	binary.LittleEndian.PutUint32(frame[:], small)
	b.SetBytes(small)
	inFlight := 0
	take := func(down int) {
		w.Flush()
		for ; inFlight > down; inFlight-- {
			if _, err := io.ReadFull(r, back[:]); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		if inFlight == 1024 {
			take(512)
		}
		w.Write(frame[:])
		inFlight++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mframes/s")
	take(0)
}

func rawServer(b *testing.B, serve func(net.Conn)) net.Conn {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		serve(c)
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close()
		ln.Close()
		<-done
	})
	return conn
}

// BenchmarkPing: one request, one reply, the requester waits on a channel.
func BenchmarkPing(b *testing.B) {
	for _, flush := range []bool{true, false} {
		name := map[bool]string{true: "flush", false: "wake"}[flush]
		b.Run(name, func(b *testing.B) {
			back := make(chan struct{}, 1)
			p := pair(b, func() { back <- struct{}{} })
			payload := make([]byte, small)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Send(wire.Requests, kindEcho, payload); err != nil {
					b.Fatal(err)
				}
				if flush {
					p.Flush()
				}
				<-back
			}
		})
	}
}

// BenchmarkRawPing is its limit.
func BenchmarkRawPing(b *testing.B) {
	conn := rawServer(b, func(c net.Conn) {
		var frame [8 + small]byte
		for {
			if _, err := io.ReadFull(c, frame[:]); err != nil {
				return
			}
			c.Write(frame[:])
		}
	})
	var frame [8 + small]byte
	for b.Loop() {
		conn.Write(frame[:])
		if _, err := io.ReadFull(conn, frame[:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBulk: frames of 1 MiB one way.
func BenchmarkBulk(b *testing.B) {
	const size = 1 << 20
	tcp := link.TCP(link.TCPConfig{})
	got := make(chan struct{}, 16)
	x := open(b, "a", tcp)
	y := open(b, "b", tcp, func(c *link.Config) {
		c.Handlers[kindNote] = func(*link.Peer, wire.Class, []byte) { got <- struct{}{} }
	})
	p, err := x.Connect(b.Context(), "b", y.Addr())
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, size)
	b.SetBytes(size)
	inFlight := 0
	for b.Loop() {
		if inFlight == 8 {
			<-got
			inFlight--
		}
		if err := p.SendBulk(kindNote, payload); err != nil {
			b.Fatal(err)
		}
		inFlight++
	}
	for ; inFlight > 0; inFlight-- {
		select {
		case <-got:
		case <-time.After(10 * time.Second):
			b.Fatal("lost")
		}
	}
}
