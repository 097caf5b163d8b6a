//go:build unix

package transfer_test

import (
	"context"
	"io"
	gonet "net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
)

const benchSize = 1 << 30

// BenchmarkFetch: 1 GiB from another node of this process over loopback TCP, into memory of the collector's and into a
// segment, which is warm from the second on. Beside each, in turns, its limit: the same bytes over TCP from one write
// after another into memory that nobody has touched; and, harder, into memory that is warm. ratio and warm-ratio are how
// much of each limit is reached, by the medians.
func BenchmarkFetch(b *testing.B) {
	from := noise(1, 64*mib)
	for _, form := range []objectstore.Form{objectstore.Heap, objectstore.Segment} {
		b.Run(form.String(), func(b *testing.B) {
			raw, fetch := benchRaw(b, from), benchFetch(b, from, form)
			warm := freshMemory(b)
			defer syscall.Munmap(warm)
			var limits, warmLimits, took []time.Duration
			for b.Loop() {
				for _, one := range []struct {
					run func()
					to  *[]time.Duration
				}{{func() {
					m := freshMemory(b)
					raw(m)
					syscall.Munmap(m)
				}, &limits}, {fetch, &took}, {func() { raw(warm) }, &warmLimits}} {
					begin := time.Now()
					one.run()
					*one.to = append(*one.to, time.Since(begin))
				}
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return d[len(d)/2].Seconds()
			}
			b.ReportMetric(median(limits)/median(took), "ratio")
			b.ReportMetric(median(warmLimits)/median(took), "warm-ratio")
			b.ReportMetric(benchSize/1e9/median(limits), "raw-GB/s")
			b.ReportMetric(benchSize/1e9/median(warmLimits), "warm-GB/s")
			b.ReportMetric(benchSize/1e9/median(took), "fetch-GB/s")
		})
	}
}

func freshMemory(b *testing.B) []byte {
	b.Helper()
	m, err := syscall.Mmap(-1, 0, benchSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func benchRaw(b *testing.B, from []byte) func(memory []byte) {
	b.Helper()
	ln, err := gonet.Listen("tcp", "127.0.0.1:0")
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
		conn.Close()
	}()
	b.Cleanup(func() { close(got) })
	conn, err := gonet.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return func(memory []byte) {
		got <- memory
		for at := 0; at < benchSize; at += mib {
			if _, err := conn.Write(from[at%len(from) : at%len(from)+mib]); err != nil {
				b.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func benchFetch(b *testing.B, from []byte, form objectstore.Form) func() {
	b.Helper()
	n := newNet(b, 1)
	n.memory = nil
	n.objects = objectstore.Config{Budget: 3 << 30, Warm: 2 << 30}
	x, y := n.node("a"), n.node("b")
	v := &value{}
	for range benchSize / len(from) {
		v.pieces = append(v.pieces, from)
	}
	if _, err := x.store.Add(context.Background(), id(1), 1, v); err != nil {
		b.Fatal(err)
	}
	return func() {
		o, err := y.Fetch(context.Background(), objectstore.Version{ID: id(1)}, transfer.From(key("a")), form)
		if err != nil {
			b.Fatal(err)
		}
		o.Unpin()
		o.Release()
		// The source has to learn that this copy is gone, or the next would be sent to it.
		x.PeerDown(key("b"), nil)
	}
}

// BenchmarkFetchNew: 1 GiB that nobody has summed yet, into a warm segment, in turns with the same bytes over TCP
// into memory that is warm.
func BenchmarkFetchNew(b *testing.B) {
	all := freshMemory(b)
	defer syscall.Munmap(all)
	from := noise(1, 64*mib)
	for at := 0; at < len(all); at += len(from) {
		copy(all[at:], from)
	}
	raw, warm := benchRaw(b, from), freshMemory(b)
	defer syscall.Munmap(warm)
	fetch := benchFetchNew(b, all)
	var limits, took []time.Duration
	timed := func(to *[]time.Duration, run func()) {
		begin := time.Now()
		run()
		*to = append(*to, time.Since(begin))
	}
	for b.Loop() {
		timed(&limits, func() { raw(warm) })
		timed(&took, fetch)
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return d[len(d)/2].Seconds()
	}
	b.ReportMetric(median(limits)*1e3, "raw-ms")
	b.ReportMetric(median(took)*1e3, "fetch-ms")
	b.ReportMetric(took[0].Seconds()*1e3, "best-fetch-ms")
	b.ReportMetric(limits[0].Seconds()*1e3, "best-raw-ms")
}

// benchFetchNew fetches a new object each time.
func benchFetchNew(b *testing.B, all []byte) func() {
	b.Helper()
	n := newNet(b, 1)
	n.memory = nil
	n.objects = objectstore.Config{Budget: 3 << 30, Warm: 2 << 30}
	x, y := n.node("a"), n.node("b")
	serial := uint64(0)
	return func() {
		serial++
		own, err := x.store.Add(context.Background(), id(serial), 1, &value{[][]byte{nil, all}})
		if err != nil {
			b.Fatal(err)
		}
		o, err := y.Fetch(context.Background(), objectstore.Version{ID: id(serial)}, transfer.From(key("a")), objectstore.Segment)
		if err != nil {
			b.Fatal(err)
		}
		o.Unpin()
		o.Release()
		own.Release()
	}
}
