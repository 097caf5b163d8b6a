package mlp

import (
	_ "embed"
	"errors"

	"github.com/raysys/raysys/examples/gpu/cuda"
)

//go:embed kernels.ptx
var kernels []byte

// device is the machine of a GPU. Its methods are called in Do of the context.
type device struct {
	ctx       *cuda.Context
	blas      *cuda.BLAS // nil: the kernels multiply, too
	module    *cuda.Module
	functions map[string]*cuda.Kernel
	allocated []cuda.Memory
	failed    error // the first that was not said yet
}

// newDevice has the driver compile the kernels.
func newDevice(ctx *cuda.Context, blas bool) (*device, error) {
	g := &device{ctx: ctx, functions: map[string]*cuda.Kernel{}}
	var err error
	if g.module, err = ctx.Load(kernels); err != nil {
		g.module = nil
		return g, err
	}
	for _, name := range []string{"matmul", "bias", "softmax", "unrelu", "columns", "adam"} {
		if g.functions[name], err = g.module.Kernel(name); err != nil {
			return g, err
		}
	}
	if blas {
		if g.blas, err = ctx.BLAS(); err != nil {
			g.blas = nil // it is not installed, or cannot be used: the kernels do the same
		}
	}
	return g, nil
}

// close gives back what the device was asked for.
func (g *device) close() error {
	var errs []error
	for _, m := range g.allocated {
		errs = append(errs, g.ctx.Free(m))
	}
	if g.blas != nil {
		errs = append(errs, g.blas.Close())
	}
	if g.module != nil {
		errs = append(errs, g.module.Unload())
	}
	return errors.Join(errs...)
}

// try does f unless something failed before.
func (g *device) try(f func() error) {
	if g.failed == nil {
		g.failed = f()
	}
}

func (g *device) vector(n int) (m cuda.Memory) {
	g.try(func() (err error) {
		if m, err = g.ctx.Alloc(n); err == nil {
			g.allocated = append(g.allocated, m)
		}
		return err
	})
	return m
}

func (g *device) part(v cuda.Memory, from, n int) cuda.Memory {
	if g.failed != nil {
		return cuda.Memory{}
	}
	return v.Part(from, n)
}

func (g *device) upload(v cuda.Memory, x []float32) {
	g.try(func() error { return g.ctx.Upload(v, x) })
}

func (g *device) download(x []float32, v cuda.Memory) error {
	g.try(func() error { return g.ctx.Download(x, v) })
	err := g.failed
	g.failed = nil
	return err
}

// Sizes of the blocks of threads, as kernels.cu has them.
const (
	tile    = 16
	threads = 128
)

func blocks(n, size int) uint32 { return uint32((n + size - 1) / size) }

// each launches a kernel with a thread for each of n.
func (g *device) each(name string, n int, args ...any) {
	g.try(func() error {
		return g.functions[name].Launch(cuda.Size{X: blocks(n, threads), Y: 1, Z: 1}, cuda.Size{X: threads, Y: 1, Z: 1}, args...)
	})
}

func (g *device) matmul(c, a, b cuda.Memory, m, n, k int, ta, tb bool) {
	g.try(func() error {
		if g.blas != nil {
			return g.blas.MatMul(c, a, b, m, n, k, ta, tb)
		}
		ai, ap, bp, bj := k, 1, n, 1
		if ta {
			ai, ap = 1, m
		}
		if tb {
			bp, bj = 1, k
		}
		return g.functions["matmul"].Launch(cuda.Size{X: blocks(n, tile), Y: blocks(m, tile), Z: 1}, cuda.Size{X: tile, Y: tile, Z: 1}, c, a, b, m, n, k, ai, ap, bp, bj)
	})
}

func (g *device) bias(z, b cuda.Memory, rows, cols int, relu bool) {
	flag := 0
	if relu {
		flag = 1
	}
	g.each("bias", rows*cols, z, b, rows*cols, cols, flag)
}

func (g *device) softmax(z, labels, losses cuda.Memory, rows, cols int) {
	g.each("softmax", rows, z, labels, losses, rows, cols)
}

func (g *device) unrelu(d, a cuda.Memory, n int) { g.each("unrelu", n, d, a, n) }

func (g *device) columns(sums, d cuda.Memory, rows, cols int) {
	g.each("columns", cols, sums, d, rows, cols)
}

func (g *device) adam(w, m, v, grad cuda.Memory, n int, rate, first, second float32) {
	g.each("adam", n, w, m, v, grad, n, rate, first, second)
}
