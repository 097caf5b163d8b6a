//go:build unix

package link_test

import (
	"context"
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
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

// BenchmarkBody: 1 GiB in bodies of 1 MiB into fresh memory, over TCP and TLS, from memory and from a file. In turns with
// each, its limit: the same bytes over the same kind of connection from one write after another, read by one io.ReadFull
// into memory as fresh. ratio is how much of the limit is reached, by the medians;
// work-ratio is the same of the processors' time.
func BenchmarkBody(b *testing.B) {
	from := make([]byte, 64<<20)
	for i := range from {
		from[i] = byte(i)
	}
	f := file(b, from)
	ca := newAuthority(b)
	for _, way := range []struct {
		name      string
		transport func(raysys.NodeID) link.Transport
	}{
		{"tcp", func(raysys.NodeID) link.Transport { return link.TCP(link.TCPConfig{}) }},
		{"tls", func(n raysys.NodeID) link.Transport { return ca.transport(string(n), "raysys://test/"+string(n)) }},
	} {
		for _, body := range []struct {
			name string
			at   func(at int) link.Body
		}{
			{"memory", func(at int) link.Body { return link.Body{Pieces: [][]byte{from[at : at+benchChunk]}} }},
			{"file", func(at int) link.Body { return link.Body{File: f, Offset: int64(at), Length: benchChunk} }},
		} {
			b.Run(way.name+"/"+body.name, func(b *testing.B) {
				raw := benchRaw(b, way.transport, from)
				bodies := benchBodies(b, way.transport, len(from), body.at)
				var limits, took runs
				for b.Loop() {
					limits.add(b, raw)
					took.add(b, bodies)
				}
				limit, limitWork := limits.median()
				median, work := took.median()
				b.ReportMetric(limit/median, "ratio")
				b.ReportMetric(limitWork/work, "work-ratio")
				b.ReportMetric(benchBody/1e9/limit, "raw-GB/s")
				b.ReportMetric(benchBody/1e9/median, "body-GB/s")
			})
		}
	}
}

// runs are what one way took, and what it took of the processors, which others that use them change less.
type runs struct{ took, work []float64 }

// add runs f with fresh memory.
func (r *runs) add(b *testing.B, f func(memory []byte)) {
	b.Helper()
	memory := fresh(b)
	begin, before := time.Now(), worked(b)
	f(memory)
	r.took = append(r.took, time.Since(begin).Seconds())
	r.work = append(r.work, worked(b)-before)
	syscall.Munmap(memory)
}

func (r *runs) median() (took, work float64) {
	slices.Sort(r.took)
	slices.Sort(r.work)
	return r.took[len(r.took)/2], r.work[len(r.work)/2]
}

// worked is how many seconds of the processors this process has had.
func worked(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func benchRaw(b *testing.B, transport func(raysys.NodeID) link.Transport, from []byte) func([]byte) {
	b.Helper()
	ln, err := transport("b").Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
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
	b.Cleanup(func() { close(got) })
	conn, err := transport("a").Dial(context.Background(), ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return func(memory []byte) {
		got <- memory
		for at := 0; at < benchBody; at += benchChunk {
			if _, err := conn.Write(from[at%len(from) : at%len(from)+benchChunk]); err != nil {
				b.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func benchBodies(b *testing.B, transport func(raysys.NodeID) link.Transport, around int, body func(at int) link.Body) func([]byte) {
	b.Helper()
	r := &region{done: make(chan struct{}, 1)}
	x := open(b, "a", transport("a"))
	y := open(b, "b", transport("b"), func(c *link.Config) { c.Sinks = map[wire.Kind]link.Sink{kindBody: r.sink} })
	p, err := x.Connect(b.Context(), "b", y.Addr())
	if err != nil {
		b.Fatal(err)
	}
	room := make(chan struct{}, 8)
	release := func(error) { <-room }
	var head [16]byte
	return func(memory []byte) {
		r.memory, r.at = memory, 0
		for at := 0; at < benchBody; at += benchChunk {
			room <- struct{}{}
			next := body(at % around)
			next.Release = release
			if err := p.SendBody(kindBody, head[:], next); err != nil {
				b.Fatal(err)
			}
		}
		<-r.done
	}
}
