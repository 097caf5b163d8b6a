package net

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// Gonum's Sgemm starts goroutines from four blocks of 64 x 64 results on. Parts of at most three blocks stay on the goroutine of the caller,
// and allocate nothing.
const (
	partRows = 64
	partCols = 3 * 64
)

// addProduct adds a b to c, or the transposed a times b. Without a transposed b Sgemm adds up one product after the other for every element of c,
// in the order of the inner index, so that neither the parts nor addresses change a bit. With one it calls a dot product whose order depends on how
// the slice is aligned: that is why Backward transposes weights itself.
func addProduct(tA blas.Transpose, a, b, c blas32.General) {
	for i := 0; i < c.Rows; i += partRows {
		rows := min(partRows, c.Rows-i)
		var left blas32.General
		if tA == blas.Trans {
			left = part(a, 0, i, a.Rows, rows)
		} else {
			left = part(a, i, 0, rows, a.Cols)
		}
		for j := 0; j < c.Cols; j += partCols {
			cols := min(partCols, c.Cols-j)
			blas32.Gemm(tA, blas.NoTrans, 1, left, part(b, 0, j, b.Rows, cols), 1, part(c, i, j, rows, cols))
		}
	}
}

// matrix is data as rows of the given width.
func matrix(data []float32, cols int) blas32.General {
	return blas32.General{Rows: len(data) / cols, Cols: cols, Stride: cols, Data: data}
}

// part is the rows x cols part of g whose first element is at i, j.
func part(g blas32.General, i, j, rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: g.Stride, Data: g.Data[i*g.Stride+j:]}
}

// transpose writes the rows x cols matrix src to dst, transposed.
func transpose(dst, src []float32, rows, cols int) {
	for i := range rows {
		for j, v := range src[i*cols : (i+1)*cols] {
			dst[j*rows+i] = v
		}
	}
}
