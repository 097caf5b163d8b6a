package mlp

import "math"

// machine does the arithmetic of a step on vectors of its own, V, of float32s. Matrices lie by rows. An operation that fails is
// said by download; those after it do nothing.
type machine[V any] interface {
	vector(n int) V
	part(v V, from, n int) V
	upload(v V, x []float32)
	download(x []float32, v V) error

	// matmul: c = a b, of m x k and k x n; where a flag is set that one lies transposed.
	matmul(c, a, b V, m, n, k int, ta, tb bool)
	// bias adds b to each row of z, and with relu makes what is negative 0.
	bias(z, b V, rows, cols int, relu bool)
	// softmax makes of the scores z the gradient of the mean cross entropy, and losses that of each row.
	softmax(z, labels, losses V, rows, cols int)
	// unrelu lets a gradient pass where the layer's output a is above 0.
	unrelu(d, a V, n int)
	// columns adds up those of d.
	columns(sums, d V, rows, cols int)
	// adam makes its step; first and second make up for the zeros that the estimates m and v began with.
	adam(w, m, v, g V, n int, rate, first, second float32)
}

// Constants of Adam, which the kernels have too.
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// network is a model on a machine.
type network[V any] struct {
	machine[V]
	spec   Spec
	layers []layer
	step   int

	w, m, v, g     V   // weights, Adam's estimates, gradient
	inputs, labels V   // of all batches
	outputs        []V // of each layer: of the last one its scores, and then their gradient
	back           []V // gradient of each layer's output; of the last one it is in outputs
	losses         V
	read           []float32 // losses, as they were downloaded
}

// build makes the vectors and fills them. What fails is said by the download at its end.
func build[V any](on machine[V], s Spec, from Snapshot) (*network[V], error) {
	n := s.weights()
	net := &network[V]{machine: on, spec: s, layers: s.layers(), step: from.Step, read: make([]float32, s.Batch)}
	vector := func(x []float32) V {
		v := on.vector(len(x))
		on.upload(v, x)
		return v
	}
	inputs, labels := s.Data()
	net.inputs, net.labels = vector(inputs), vector(labels)
	net.w, net.m, net.v, net.g = vector(from.Weights), vector(from.First), vector(from.Second), on.vector(n)
	for _, l := range net.layers {
		net.outputs, net.back = append(net.outputs, on.vector(s.Batch*l.out)), append(net.back, on.vector(s.Batch*l.out))
	}
	net.losses = vector(net.read)
	return net, on.download(net.read, net.losses)
}

// next makes a step and returns the loss before it: the mean cross entropy of its batch.
func (net *network[V]) next() (float64, error) {
	s, rows := net.spec, net.spec.Batch
	at := net.step % s.Batches * rows
	input := net.part(net.inputs, at*s.Sizes[0], rows*s.Sizes[0])
	last := len(net.layers) - 1

	x := input
	for i, l := range net.layers {
		net.matmul(net.outputs[i], x, net.part(net.w, l.at, l.in*l.out), rows, l.out, l.in, false, false)
		net.bias(net.outputs[i], net.part(net.w, l.bias(), l.out), rows, l.out, i < last)
		x = net.outputs[i]
	}
	net.softmax(x, net.part(net.labels, at, rows), net.losses, rows, net.layers[last].out)

	d := x
	for i := last; i >= 0; i-- {
		l := net.layers[i]
		x = input
		if i > 0 {
			x = net.outputs[i-1]
		}
		net.matmul(net.part(net.g, l.at, l.in*l.out), x, d, l.in, l.out, rows, true, false)
		net.columns(net.part(net.g, l.bias(), l.out), d, rows, l.out)
		if i > 0 {
			net.matmul(net.back[i-1], d, net.part(net.w, l.at, l.in*l.out), rows, l.in, l.out, false, true)
			d = net.back[i-1]
			net.unrelu(d, net.outputs[i-1], rows*l.in)
		}
	}
	t := float64(net.step + 1)
	net.adam(net.w, net.m, net.v, net.g, s.weights(), float32(s.Rate), float32(1/(1-math.Pow(beta1, t))), float32(1/(1-math.Pow(beta2, t))))

	if err := net.download(net.read, net.losses); err != nil {
		return 0, err
	}
	net.step++
	var sum float64
	for _, loss := range net.read {
		sum += float64(loss)
	}
	return sum / float64(rows), nil
}

// snapshot copies what the last step left.
func (net *network[V]) snapshot() (Snapshot, error) {
	n := net.spec.weights()
	s := Snapshot{Step: net.step, Weights: make([]float32, n), First: make([]float32, n), Second: make([]float32, n)}
	for _, c := range []struct {
		to   []float32
		from V
	}{{s.Weights, net.w}, {s.First, net.m}, {s.Second, net.v}} {
		if err := net.download(c.to, c.from); err != nil {
			return Snapshot{}, err
		}
	}
	return s, nil
}
