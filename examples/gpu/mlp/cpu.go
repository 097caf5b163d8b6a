package mlp

import "math"

// cpu is the machine of a host without a GPU: plain loops.
type cpu struct{}

func (cpu) vector(n int) []float32                  { return make([]float32, n) }
func (cpu) part(v []float32, from, n int) []float32 { return v[from : from+n] }
func (cpu) upload(v []float32, x []float32)         { copy(v, x) }
func (cpu) download(x []float32, v []float32) error { copy(x, v); return nil }
func (cpu) bias(z, b []float32, rows, cols int, relu bool) {
	for i := range rows {
		row := z[i*cols:][:cols]
		for j := range row {
			if row[j] += b[j]; relu && row[j] < 0 {
				row[j] = 0
			}
		}
	}
}

// matmul goes along the rows of b and c where it can, which lie together in memory.
func (cpu) matmul(c, a, b []float32, m, n, k int, ta, tb bool) {
	clear(c[:m*n])
	for i := range m {
		row := c[i*n:][:n]
		for p := range k {
			x := a[i*k+p]
			if ta {
				x = a[p*m+i]
			}
			if x == 0 { // of relu
				continue
			}
			if !tb {
				for j, y := range b[p*n:][:n] {
					row[j] += x * y
				}
				continue
			}
			for j := range row {
				row[j] += x * b[j*k+p]
			}
		}
	}
}

func (cpu) softmax(z, labels, losses []float32, rows, cols int) {
	for i := range rows {
		row, label := z[i*cols:][:cols], int(labels[i])
		top := row[0]
		for _, x := range row {
			top = max(top, x)
		}
		var sum float32
		for _, x := range row {
			sum += float32(math.Exp(float64(x - top)))
		}
		losses[i] = float32(math.Log(float64(sum))) - (row[label] - top)
		for j, x := range row {
			p := float32(math.Exp(float64(x-top))) / sum
			if j == label {
				p--
			}
			row[j] = p / float32(rows)
		}
	}
}

func (cpu) unrelu(d, a []float32, n int) {
	for i := range n {
		if !(a[i] > 0) {
			d[i] = 0
		}
	}
}

func (cpu) columns(sums, d []float32, rows, cols int) {
	clear(sums)
	for i := range rows {
		for j, x := range d[i*cols:][:cols] {
			sums[j] += x
		}
	}
}

func (cpu) adam(w, m, v, g []float32, n int, rate, first, second float32) {
	for i := range n {
		m[i] = beta1*m[i] + (1-beta1)*g[i]
		v[i] = beta2*v[i] + (1-beta2)*g[i]*g[i]
		w[i] -= rate * (m[i] * first) / (float32(math.Sqrt(float64(v[i]*second))) + epsilon)
	}
}
