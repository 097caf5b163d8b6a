package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// sketchBytes is the raw limit of an idle grain: the memory of a stock protoactor actor, its PID and its id, of which
// the first sketch of this project made 1M on the same kind of machine. It is a constant because actors may not be made
// here.
const sketchBytes = 624

// idleReport has the figures of the child that holds the grains.
type idleReport struct {
	Grains   int     `json:"grains"`
	PerGrain float64 `json:"bytes_per_grain"`    // live heap, without the user's struct
	Struct   int     `json:"user_struct_bytes"`  // of the grains measured
	Heap     uint64  `json:"live_heap_bytes"`    // with all grains idle
	Before   uint64  `json:"heap_before_bytes"`  // with one grain, which has made the memory that all share
	Resident uint64  `json:"rss_bytes"`          // 0 where it cannot be read
	Seconds  float64 `json:"activation_seconds"` // first call to last answer
	P50      float64 `json:"batch_p50_us"`       // of 1000 activations
}

// idleGrains activates n grains with one call each, weighs them, and hands out the report while they are there.
func idleGrains(ctx context.Context, p Plan, n int, report func(idleReport) error) error {
	return withNode(ctx, p, func(ctx context.Context, _ *system.Node) error {
		if _, err := add.Call(ctx, counters.Get("first"), 1).Get(ctx); err != nil {
			return err
		}
		rep := idleReport{Grains: n, Struct: int(unsafe.Sizeof(counter{})), Before: liveHeap()}
		var h hist
		start, last := time.Now(), time.Duration(0)
		refs := make([]raysys.Ref[int], 0, batch)
		for i := range n {
			refs = append(refs, add.Call(ctx, counters.Get(strconv.Itoa(i)), 1))
			if len(refs) < batch && i < n-1 {
				continue
			}
			for _, r := range refs {
				v, err := r.Get(ctx)
				if err != nil {
					return err
				}
				if err := expect(v, 1); err != nil {
					return err
				}
			}
			clear(refs)
			refs = refs[:0]
			now := time.Since(start)
			h.add(now - last)
			last = now
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		rep.Seconds, rep.P50 = last.Seconds(), us(h.quantile(0.5))
		rep.Heap = liveHeap()
		rep.PerGrain = (float64(rep.Heap)-float64(rep.Before))/float64(n) - float64(rep.Struct)
		if runtime.GOOS == "linux" {
			var err error
			if rep.Resident, err = residentBytes("self"); err != nil {
				return err
			}
		}
		return report(rep)
	})
}

// grainsIdle weighs a million grains in a process of their own, so that neither the other rows' garbage nor the
// grains' memory is in the other's way.
func grainsIdle(ctx context.Context, p Plan) (measured, error) { return idleInChild(ctx, p, million) }

func idleInChild(ctx context.Context, p Plan, n int) (measured, error) {
	m := measured{limit: "actor, PID and id of the sketch", limitValue: sketchBytes}
	c, err := launch(ctx, p, childGrains, strconv.Itoa(n))
	if err != nil {
		return m, err
	}
	var rep idleReport
	if err := json.NewDecoder(c.out).Decode(&rep); err != nil {
		if e := c.end(); e != nil {
			return m, e
		}
		return m, fmt.Errorf("read child's report: %w", err)
	}
	// A million grains take seconds to leave one by one. The row does not measure that.
	if err := c.kill(); err != nil {
		return m, err
	}
	m.value = rep.PerGrain
	m.note("grains", rep.Grains)
	m.note("user_struct_bytes", rep.Struct)
	m.note("live_heap_mib", figures(float64(rep.Heap)/(1<<20)))
	m.note("rss_mib", figures(float64(rep.Resident)/(1<<20)))
	m.note("rss_bytes_per_grain", figures(float64(rep.Resident)/float64(n)))
	m.note("activations_per_s", figures(float64(n)/rep.Seconds))
	m.note("activation_batch_p50_us", figures(rep.P50))
	m.note("limit_source", "constant: the sketch's live heap per idle actor, 1M actors on 2 cores")
	return m, nil
}

// putGigabytes puts as many bytes as Ray's row, which copies them into its store. Here nothing is copied, and the row
// makes sure of that: Get returns the memory that was put, and Put allocates next to nothing. So its ratio is 1 by
// definition, and the figure of memcpy stands beside it.
func putGigabytes(ctx context.Context, p Plan) (m measured, err error) {
	n := p.size(putBytes)
	if n <= raysys.ObjectSize {
		return m, fmt.Errorf("%d bytes are no object: those above %d are", n, raysys.ObjectSize)
	}
	m = measured{latency: &hist{}, latencyOf: "one Put", limit: "memcpy into equally fresh memory", same: true}
	err = withNode(ctx, p, func(driver context.Context, node *system.Node) error {
		data, floats := pattern(n), make([]float32, n/4)
		for range p.Rounds {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			a, err := putWhole(driver, data)
			if err != nil {
				return fmt.Errorf("[]byte: %w", err)
			}
			b, err := putWhole(driver, floats)
			if err != nil {
				return fmt.Errorf("[]float32: %w", err)
			}
			bare, err := copyFresh(data)
			if err != nil {
				return err
			}
			m.latency.add(a)
			m.latency.add(b)
			m.rounds = append(m.rounds, gb(n, max(a, b).Seconds()))
			m.limits = append(m.limits, gb(n, bare.Seconds()))
		}
		if st := node.Objects(); st.Objects > 0 || st.Spilled > 0 {
			return fmt.Errorf("after the last Release the store has %+v", st)
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("bytes", n)
	m.note("copy", "no copy: Put keeps the value, and Get returns the same memory; so the ratio is 1, and the value is the size over the time of a Put")
	return m, err
}

// putAllocates bounds the bytes that a Put may allocate: for the records of the future and of the object.
const putAllocates = 64 << 10

// putWhole puts a value, and says how long that took. It refuses a copy.
func putWhole[T any](driver context.Context, v []T) (time.Duration, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	ref := raysys.Put(driver, v)
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	got, err := ref.Get(driver)
	ref.Release()
	switch {
	case err != nil:
		return 0, err
	case unsafe.SliceData(got) != unsafe.SliceData(v) || len(got) != len(v):
		return 0, errors.New("another value came back: Get returned other memory than was put: the row would have to compare with memcpy")
	case after.TotalAlloc-before.TotalAlloc > putAllocates:
		return 0, fmt.Errorf("put allocated %d bytes", after.TotalAlloc-before.TotalAlloc)
	}
	return took, nil
}

// copyFresh copies data into memory that the kernel has not given out yet.
func copyFresh(data []byte) (time.Duration, error) {
	to, err := fresh(len(data))
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	copy(to, data)
	took := time.Since(begin)
	if to[len(to)-1] != data[len(data)-1] {
		err = errors.New("the copy differs")
	}
	return took, errors.Join(err, giveBack(to))
}

// The sizes that the rows of large objects move, unless Plan.Size gives another.
const (
	gigabyte  = 1 << 30
	putBytes  = 800_000_000 // Ray's row puts as much
	broadcast = 256 << 20
	bulkBytes = 256 << 20
)

func (p Plan) size(usual int64) int {
	if p.Size > 0 {
		return int(p.Size)
	}
	return int(usual)
}

// pattern is n bytes that are not all alike. Every page of it has been written.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range min(n, 1<<20) {
		b[i] = byte(i>>8)*31 + byte(i)*7 + 1
	}
	for filled := min(n, 1<<20); filled < n; {
		filled += copy(b[filled:], b[:filled])
	}
	return b
}

// page is the least that memory is mapped in.
const page = 4 << 10

// touch reads a byte of every page.
func touch(b []byte) (sum int64) {
	for i := 0; i < len(b); i += page {
		sum += int64(b[i])
	}
	return sum
}

// touched keeps the compiler from leaving touch out.
var touched atomic.Int64

// gb is a rate in 10^9 bytes per second.
func gb(bytes int, seconds float64) float64 { return float64(bytes) / 1e9 / seconds }

// GigabytesPerSecond is the unit of rates of bytes.
const GigabytesPerSecond Unit = "GB/s"

// sized is for details.
func sized(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
