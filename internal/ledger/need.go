package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/raysys/raysys/internal/core"
)

// Unit is one of a resource that is counted in thousandths.
const Unit = 1000

// Need is what one task or activation asks for.
type Need struct {
	CPU       int64            // thousandths
	Memory    int64            // bytes
	Custom    map[string]int64 // thousandths, by name
	GPU       int64            // thousandths: below 1000 a share of one device, else whole devices
	GPUMemory int64            // bytes of each device
	GPUModel  string           // of each device; "" is any
	Bundle    core.Bundle      // what it is taken from; zero for the node
}

// Of returns the need for resources that are valid.
func Of(r core.Resources) Need {
	n := Need{CPU: Thousandths(r.CPU), GPU: Thousandths(r.GPU), GPUMemory: r.GPUMemory, GPUModel: r.GPUModel, Memory: r.Memory}
	for k, v := range r.Custom {
		if v != 0 {
			if n.Custom == nil {
				n.Custom = make(map[string]int64, len(r.Custom))
			}
			n.Custom[k] = Thousandths(v)
		}
	}
	return n
}

// Thousandths rounds v to the finest share there is.
func Thousandths(v float64) int64 { return int64(math.Round(v * Unit)) }

// String lists what is not zero, in units.
func (n Need) String() string { return n.Resources().String() }

// Shortage is the resources of which there is too little for a need.
type Shortage struct {
	CPU, Memory, GPU bool
	Custom           []string // by name, sorted
	errs             []error
}

// Empty reports whether there is enough of all.
func (s *Shortage) Empty() bool { return !s.CPU && !s.Memory && !s.GPU && len(s.Custom) == 0 }

// Err says what is short, with what there is; nil for an empty one. It matches no sentinel.
func (s *Shortage) Err() error { return errors.Join(s.errs...) }

func (s *Shortage) add(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// Add adds what other is short of, without its words.
func (s *Shortage) Add(other *Shortage) {
	s.CPU, s.Memory, s.GPU = s.CPU || other.CPU, s.Memory || other.Memory, s.GPU || other.GPU
	for _, k := range other.Custom {
		if !slices.Contains(s.Custom, k) {
			s.Custom = append(s.Custom, k)
		}
	}
}

// Touches reports whether n asks for something that is short.
func (s *Shortage) Touches(n *Need) bool {
	return s.CPU && n.CPU > 0 || s.Memory && n.Memory > 0 || s.GPU && n.GPU > 0 ||
		slices.ContainsFunc(s.Custom, func(k string) bool { return n.Custom[k] > 0 })
}

// IsCPU reports whether n asks for that much CPU, in thousandths, and for nothing else.
func (n *Need) IsCPU(v int64) bool {
	return n.CPU == v && n.GPU == 0 && n.Memory == 0 && len(n.Custom) == 0 && n.GPUMemory == 0 && n.GPUModel == "" && n.Bundle.Group == ""
}

// Beyond reports whether n asks for more than one CPU.
func (n *Need) Beyond() bool { return n.CPU > Unit || !n.IsCPU(n.CPU) }

// Resources are n in units.
func (n Need) Resources() core.Resources {
	r := core.Resources{CPU: float64(n.CPU) / Unit, GPU: float64(n.GPU) / Unit, GPUMemory: n.GPUMemory, GPUModel: n.GPUModel, Memory: n.Memory}
	if len(n.Custom) > 0 {
		r.Custom = make(map[string]float64, len(n.Custom))
		for k, v := range n.Custom {
			r.Custom[k] = float64(v) / Unit
		}
	}
	return r
}

// alike reports whether n and o ask for whole devices, and the same devices do for both.
func (n *Need) alike(o *Need) bool {
	return n.GPU >= Unit && o.GPU >= Unit && n.GPUModel == o.GPUModel && n.GPUMemory == o.GPUMemory
}

// count is how many devices n asks for.
func (n *Need) count() int {
	if n.GPU == 0 {
		return 0
	}
	return max(int(n.GPU/Unit), 1)
}

// Roams reports whether the work may be in any bundle of its group.
func (n *Need) Roams() bool { return n.Bundle.Group != "" && n.Bundle.Index == core.AnyBundle }
