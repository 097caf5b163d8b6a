package cuda

import (
	"fmt"
)

// BLAS is cuBLAS with a handle for one context.
type BLAS struct {
	create  func(handle *uintptr) int32
	destroy func(handle uintptr) int32
	sgemm   func(handle uintptr, transA, transB, m, n, k int32, alpha *float32, a uint64, lda int32, b uint64, ldb int32, beta *float32, c uint64, ldc int32) int32
	handle  uintptr
	scale   *[2]float32 // 1 and 0
}

// blasNames are those of cuBLAS of the CUDA versions whose calls are the same.
var blasNames = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}

// BLAS loads cuBLAS for the context. It is called in Do, like all that is done with what it returns.
func (c *Context) BLAS() (*BLAS, error) {
	lib, err := Load(blasNames...)
	if err != nil {
		return nil, fmt.Errorf("load cuBLAS: %w", err)
	}
	b := &BLAS{scale: &[2]float32{1, 0}}
	if err := lib.bind([]function{
		{&b.create, []string{"cublasCreate_v2"}},
		{&b.destroy, []string{"cublasDestroy_v2"}},
		{&b.sgemm, []string{"cublasSgemm_v2"}},
	}); err != nil {
		return nil, err
	}
	return b, result("cublasCreate", b.create(&b.handle))
}

// Close gives the handle back.
func (b *BLAS) Close() error { return result("cublasDestroy", b.destroy(b.handle)) }

// MatMul computes c = a b, of m x k and k x n, all by rows. Where a flag is set that matrix lies transposed.
func (b *BLAS) MatMul(c, x, y Memory, m, n, k int, tx, ty bool) error {
	// cuBLAS has matrices by columns: what it is given is each matrix transposed, and c' is y' x'.
	flag, ldx, ldy := map[bool]int32{true: 1}, k, n
	if tx {
		ldx = m
	}
	if ty {
		ldy = k
	}
	return result("cublasSgemm", b.sgemm(b.handle, flag[ty], flag[tx], int32(n), int32(m), int32(k), &b.scale[0],
		y.at, int32(ldy), x.at, int32(ldx), &b.scale[1], c.at, int32(n)))
}

// result makes that of cuBLAS an error; it has no texts.
func result(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return &Error{Call: call, Code: code}
}
