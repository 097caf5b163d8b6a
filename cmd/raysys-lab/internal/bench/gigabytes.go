package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

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
