package collective

import "slices"

// doubling is AllReduce of vectors up to doublingSize by recursive doubling: in stage k a rank exchanges its vector with the rank
// whose number differs in bit k, so all are done after log2(size) stages. Where size is no power of two the ranks
// above the largest one within it hand their vector to a partner first and get the result from it. Both sides of an
// exchange compute lower rank's op higher rank's, so all ranks come to the same bits.
type doubling[T Number] struct {
	place
	op     Op
	pow    int // the largest power of two that is not above size
	stages int
	stage  int   // the next to combine; stageFold comes before stage 0
	acc    []T   // shared with the partners once it was sent, and so replaced and never changed
	early  [][]T // by stage+1: what came
	over   bool
}

const (
	stageFold  = -1
	stepFold   = 0 // Step of what a rank above pow hands in
	stepStage  = 1 // + stage
	stepUnfold = 1 << 10
)

func newDoubling[T Number](at place, op Op, vec []T) *doubling[T] {
	d := &doubling[T]{place: at, op: op, acc: vec, pow: 1}
	for d.pow*2 <= at.size {
		d.pow *= 2
		d.stages++
	}
	if at.rank+d.pow < at.size {
		d.stage = stageFold
	}
	d.early = make([][]T, d.stages+1)
	return d
}

func (d *doubling[T]) folded() bool { return d.rank >= d.pow }

func (d *doubling[T]) begin(o *out[T]) {
	switch {
	case d.folded():
		o.send(d.rank-d.pow, part[T]{Step: stepFold, Vec: d.acc})
	case d.stage == stageFold:
	default:
		d.exchange(o)
	}
}

// exchange sends what the rank has to the partner of the stage, or finishes after the last.
func (d *doubling[T]) exchange(o *out[T]) {
	if d.stage < d.stages {
		o.send(d.rank^1<<d.stage, part[T]{Step: stepStage + d.stage, Vec: d.acc})
		return
	}
	d.over = true
	if d.rank+d.pow < d.size {
		o.send(d.rank+d.pow, part[T]{Step: stepUnfold, Vec: slices.Clone(d.acc)})
	}
}

func (d *doubling[T]) take(h handed[T], o *out[T]) error {
	p := h.Part
	if len(p.Vec) != len(d.acc) {
		return badPart(p)
	}
	if p.Step == stepUnfold {
		if !d.folded() || p.From != d.rank-d.pow {
			return badPart(p)
		}
		if !d.over {
			d.acc, d.over = p.Vec, true
		}
		return nil
	}
	at := p.Step - stepStage // stageFold for stepFold
	if d.folded() || at < stageFold || at >= d.stages || p.From != d.partner(at) {
		return badPart(p)
	}
	if d.over || at < d.stage {
		return nil // it came twice
	}
	if p.Vec == nil {
		p.Vec = []T{}
	}
	d.early[at+1] = p.Vec
	for d.stage < d.stages && d.early[d.stage+1] != nil {
		theirs, lower, higher := d.early[d.stage+1], d.acc, d.early[d.stage+1]
		if d.partner(d.stage) < d.rank {
			lower, higher = theirs, d.acc
		}
		next := make([]T, len(d.acc))
		combine(d.op, next, lower, higher)
		d.acc = next
		d.stage++
		d.exchange(o)
	}
	return nil
}

func (d *doubling[T]) partner(stage int) int {
	if stage == stageFold {
		return d.rank + d.pow
	}
	return d.rank ^ 1<<stage
}

func (d *doubling[T]) done() bool { return d.over }

func (d *doubling[T]) result() outcome[T] { return outcome[T]{Vec: d.acc} }

func (d *doubling[T]) waits() []int {
	switch {
	case d.over:
		return nil
	case d.folded():
		return []int{d.rank - d.pow}
	}
	return []int{d.partner(d.stage)}
}
