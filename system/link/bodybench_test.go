//go:build unix

package link_test

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system/link"
)

const (
	benchChunk = 1 << 20
	benchBody  = 1 << 30
)

// fresh returns memory that nobody has touched, as the system hands it out.
func fresh(b *testing.B) []byte {
	b.Helper()
	m, err := syscall.Mmap(-1, 0, benchBody, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// region is a sink that fills fresh memory in order.
type region struct {
	memory []byte
	at     int
	now    []byte
	done   chan struct{}
}

func (r *region) sink(_ *link.Peer, _ []byte, size int) link.Landing {
	r.now = r.memory[r.at : r.at+size]
	r.at += size
	return r
}

func (r *region) Memory() []byte { return r.now }

func (r *region) Landed(error) {
	if r.at == len(r.memory) {
		r.done <- struct{}{}
	}
}

// BenchmarkBody: 1 GiB in bodies of 1 MiB into fresh memory; over TCP from memory and from a file, and over TLS. Raw
// beside it is its limit: the same bytes from one write after another, read by one io.ReadFull.
func BenchmarkBody(b *testing.B) {
	from := make([]byte, 64<<20)
	for i := range from {
		from[i] = byte(i)
	}
	tcp := func(raysys.NodeID) link.Transport { return link.TCP(link.TCPConfig{}) }
	ca := newAuthority(b)
	tls := func(n raysys.NodeID) link.Transport { return ca.transport(string(n), "raysys://test/"+string(n)) }
	for _, way := range []struct {
		name      string
		transport func(raysys.NodeID) link.Transport
	}{{"tcp", tcp}, {"tls", tls}} {
		b.Run(way.name+"/raw", func(b *testing.B) { benchRaw(b, way.transport, from) })
		b.Run(way.name+"/memory", func(b *testing.B) {
			benchBodies(b, way.transport, func(at int) link.Body {
				at %= len(from)
				return link.Body{Pieces: [][]byte{from[at : at+benchChunk]}}
			})
		})
		b.Run(way.name+"/file", func(b *testing.B) {
			f := file(b, from)
			benchBodies(b, way.transport, func(at int) link.Body {
				return link.Body{File: f, Offset: int64(at % len(from)), Length: benchChunk}
			})
		})
	}
}

func benchRaw(b *testing.B, transport func(raysys.NodeID) link.Transport, from []byte) {
	ln, err := transport("b").Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	got := make(chan []byte)
	done := make(chan error)
	go func() {
		conn, err := ln.Accept()
		for memory := range got {
			if err == nil {
				_, err = io.ReadFull(conn, memory)
			}
			done <- err
		}
		if conn != nil {
			conn.Close()
		}
	}()
	defer close(got)
	conn, err := transport("a").Dial(context.Background(), ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	write := func(conn net.Conn) {
		for at := 0; at < benchBody; at += benchChunk {
			if _, err := conn.Write(from[at%len(from) : at%len(from)+benchChunk]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(benchBody)
	for b.Loop() {
		memory := fresh(b)
		got <- memory
		write(conn)
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		syscall.Munmap(memory)
	}
}

func benchBodies(b *testing.B, transport func(raysys.NodeID) link.Transport, body func(at int) link.Body) {
	r := &region{done: make(chan struct{}, 1)}
	x := open(b, "a", transport("a"))
	y := open(b, "b", transport("b"), func(c *link.Config) { c.Sinks = map[link.Kind]link.Sink{kindBody: r.sink} })
	p, err := x.Connect(b.Context(), "b", y.Addr())
	if err != nil {
		b.Fatal(err)
	}
	room := make(chan struct{}, 8)
	release := func(error) { <-room }
	var head [16]byte
	b.SetBytes(benchBody)
	b.ReportAllocs()
	for b.Loop() {
		r.memory, r.at = fresh(b), 0
		for at := 0; at < benchBody; at += benchChunk {
			room <- struct{}{}
			next := body(at)
			next.Release = release
			if err := p.SendBody(kindBody, head[:], next); err != nil {
				b.Fatal(err)
			}
		}
		<-r.done
		syscall.Munmap(r.memory)
	}
}
