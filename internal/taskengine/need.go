package taskengine

import (
	"errors"
	"fmt"
	"math"

	"github.com/raysys/raysys"
)

// need is what one task asks for, in integers: CPU and GPU in thousandths.
type need struct {
	cpu, gpu, memory int64
	custom           map[string]int64
}

func needOf(r raysys.Resources) need {
	n := need{cpu: milli(r.CPU), gpu: milli(r.GPU), memory: r.Memory}
	if len(r.Custom) > 0 {
		n.custom = make(map[string]int64, len(r.Custom))
		for k, v := range r.Custom {
			if v != 0 {
				n.custom[k] = milli(v)
			}
		}
	}
	return n
}

func milli(v float64) int64 { return int64(math.Round(v * 1000)) }

// fits reports whether the node as a whole could ever run the task.
func (e *Engine) fits(r raysys.Resources) error {
	n := needOf(r)
	var errs []error
	over := func(name string, want, have int64) {
		if want > have {
			errs = append(errs, fmt.Errorf("%s %g of %g", name, float64(want)/1000, float64(have)/1000))
		}
	}
	over("CPU", n.cpu, e.total.cpu)
	over("GPU", n.gpu, e.total.gpu)
	if n.memory > e.total.memory {
		errs = append(errs, fmt.Errorf("memory %d of %d bytes", n.memory, e.total.memory))
	}
	for k, v := range n.custom {
		over(k, v, e.total.custom[k])
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("%w: the task asks for more than any node has (%w): ask for less, or raise system.Config.Resources",
		raysys.ErrNoCapacity, errors.Join(errs...))
}
