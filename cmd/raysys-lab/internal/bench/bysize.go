package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// make gives n bytes, and took takes bytes.
func (c *counter) make(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil }
func (c *counter) took(_ context.Context, b []byte) (int, error) { return len(b), nil }

var (
	makeBytes = grains.Method(counters, "make", (*counter).make)
	tookBytes = grains.Method(counters, "took", (*counter).took)
)

// bySizeBase is the size just below raysys.ObjectSize that the others are compared with, and bySizeOpen is how many calls are open.
const (
	bySizeBase = 63 << 10
	bySizeOpen = 16
)

// bySizeSizes are those above it; the first is the row's.
var bySizeSizes = []int{70 << 10, 256 << 10, 1 << 20}

// bySizeCase is one kind of call.
type bySizeCase struct {
	name string
	open int
	size int
	arg  []byte // nil: the result has the size
}

// resultsBySize measures how many bytes a second grain calls move, by the size of their results and of their arguments, beside those of
// 63 KiB.
func resultsBySize(ctx context.Context, p Plan) (m measured, err error) {
	m = measured{latency: &hist{}, latencyOf: fmt.Sprintf("%d calls with results of %s", bySizeOpen, kibs(bySizeSizes[0])), limit: "bytes a second of results of " + kibs(bySizeBase)}
	var cases []*bySizeCase
	add := func(name string, open, size int, arg bool) {
		c := &bySizeCase{name: name, open: open, size: size}
		if arg {
			c.arg = make([]byte, size)
		}
		cases = append(cases, c)
	}
	for _, size := range append([]int{bySizeBase}, bySizeSizes...) {
		add("result_"+kibs(size), bySizeOpen, size, false)
		add("argument_"+kibs(size), bySizeOpen, size, true)
	}
	for _, size := range []int{bySizeBase, 65 << 10} {
		add("alone_"+kibs(size), 1, size, false)
	}
	rates := make([][]float64, len(cases)) // GB/s
	err = withObjects(ctx, p, 1, options{}, func(driver context.Context, c *cluster) error {
		g := counters.Get("sized")
		if err := c.elsewhere(driver, g); err != nil {
			return err
		}
		for round := range p.Rounds + 1 {
			for i, x := range cases {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				var h hist
				rate, err := side{x.open, func() error { return x.calls(driver, g) }}.loop(p.Slice, &h)
				if err != nil {
					return fmt.Errorf("%s: %w", x.name, err)
				}
				if round == 0 {
					continue
				}
				rates[i] = append(rates[i], rate*float64(x.size)/1e9)
				if x.open == bySizeOpen && x.arg == nil && x.size == bySizeSizes[0] {
					m.latency.merge(&h)
				}
			}
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	m.limits, m.rounds = rates[0], rates[2]
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	for i, x := range cases {
		base := median(rates[i%2]) // of results, of arguments
		if x.open == 1 {
			base = median(rates[len(cases)-2])
			m.note(x.name+"_us", figures(float64(x.size)/median(rates[i])/1e3))
		}
		m.note(x.name+"_ratio", figures(median(rates[i])/base))
	}
	return m, nil
}

// calls makes the calls that are open at a time, and waits for them.
func (x *bySizeCase) calls(ctx context.Context, g grains.Grain[counter]) error {
	if x.arg != nil {
		refs := make([]raysys.Ref[int], x.open)
		for i := range refs {
			refs[i] = tookBytes.Call(ctx, g, x.arg)
		}
		for _, r := range refs {
			if n, err := r.Get(ctx); err != nil || n != x.size {
				return errors.Join(err, expect(n, x.size))
			}
		}
		return nil
	}
	refs := make([]raysys.Ref[[]byte], x.open)
	for i := range refs {
		refs[i] = makeBytes.Call(ctx, g, x.size)
	}
	for _, r := range refs {
		if b, err := r.Get(ctx); err != nil || len(b) != x.size {
			return errors.Join(err, expect(len(b), x.size))
		}
	}
	return nil
}

func kibs(n int) string { return fmt.Sprintf("%d_KiB", n>>10) }
