package mlp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Spec says what is trained on what.
type Spec struct {
	Sizes   []int   // of the layers: inputs first, classes last
	Batch   int     // examples in a step
	Batches int     // that are made; the steps take them in turn
	Rate    float64 // of Adam
	Seed    uint64
}

// mostWeights bounds a model: its snapshot is an object of 12 bytes a weight.
const mostWeights = 1 << 28

// Validate reports a Spec that cannot be trained.
func (s Spec) Validate() error {
	var errs []error
	if len(s.Sizes) < 2 {
		errs = append(errs, fmt.Errorf("Spec.Sizes has %d layers: give those of the inputs and of the classes at least", len(s.Sizes)))
	}
	for i, n := range s.Sizes {
		if n < 1 || n > mostWeights {
			errs = append(errs, fmt.Errorf("Spec.Sizes[%d] is %d: give 1 or more", i, n))
			return errors.Join(errs...)
		}
	}
	if n := s.weights(); n > mostWeights {
		errs = append(errs, fmt.Errorf("Spec.Sizes %v make %d weights: at most %d are trained", s.Sizes, n, mostWeights))
	}
	if s.Batch < 1 || s.Batches < 1 || len(s.Sizes) > 0 && s.Batch > mostWeights/s.Sizes[0]/s.Batches {
		errs = append(errs, fmt.Errorf("Spec.Batch is %d and Batches %d: give 1 or more, and at most %d numbers in all", s.Batch, s.Batches, mostWeights))
	}
	if !(s.Rate > 0) || math.IsInf(s.Rate, 0) {
		errs = append(errs, fmt.Errorf("Spec.Rate is %v: give one above 0, such as 0.001", s.Rate))
	}
	return errors.Join(errs...)
}

// layer is where one lies among the weights: in x out of them by rows, and then out biases.
type layer struct{ in, out, at int }

func (l layer) bias() int { return l.at + l.in*l.out }

func (s Spec) layers() (list []layer) {
	at := 0
	for i := range len(s.Sizes) - 1 {
		l := layer{s.Sizes[i], s.Sizes[i+1], at}
		list, at = append(list, l), l.bias()+l.out
	}
	return list
}

// weights is how many there are. It may be of a Spec that is not valid: it stops at more than there may be.
func (s Spec) weights() (n int) {
	for i := range len(s.Sizes) - 1 {
		if n += (s.Sizes[i] + 1) * s.Sizes[i+1]; n > mostWeights {
			return n
		}
	}
	return n
}

// Snapshot is what a model is after a step. It is never changed.
type Snapshot struct {
	Step    int       // steps that are behind it
	Weights []float32 // layer by layer: the weights by rows, then the biases
	First   []float32 // Adam's estimate of the mean of each gradient
	Second  []float32 // and of its square
}

// Start is what training begins with.
func (s Spec) Start() Snapshot {
	n := s.weights()
	first := Snapshot{Weights: make([]float32, n), First: make([]float32, n), Second: make([]float32, n)}
	r := rand.New(rand.NewPCG(s.Seed, 1))
	for _, l := range s.layers() {
		scale := math.Sqrt(2 / float64(l.in)) // He and others, 2015: of layers with relu
		for i := range l.in * l.out {
			first.Weights[l.at+i] = float32(scale * r.NormFloat64())
		}
	}
	return first
}

func (s Spec) checkSnapshot(from Snapshot) error {
	if n := s.weights(); len(from.Weights) != n || len(from.First) != n || len(from.Second) != n || from.Step < 0 {
		return fmt.Errorf("snapshot of step %d has %d, %d and %d numbers: sizes %v have %d weights", from.Step, len(from.Weights), len(from.First), len(from.Second), s.Sizes, n)
	}
	return nil
}

// Data makes all batches: normal inputs, by rows, and for each the class that a random linear teacher finds most likely.
func (s Spec) Data() (inputs, labels []float32) {
	r := rand.New(rand.NewPCG(s.Seed, 2))
	in, classes := s.Sizes[0], s.Sizes[len(s.Sizes)-1]
	teacher := make([]float64, in*classes)
	for i := range teacher {
		teacher[i] = r.NormFloat64()
	}
	for range s.Batch * s.Batches {
		scores := make([]float64, classes)
		for i := range in {
			x := float32(r.NormFloat64())
			inputs = append(inputs, x)
			for j := range scores {
				scores[j] += float64(x) * teacher[i*classes+j]
			}
		}
		best := 0
		for j, v := range scores {
			if v > scores[best] {
				best = j
			}
		}
		labels = append(labels, float32(best))
	}
	return inputs, labels
}
