package core

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Resources are raysys.Resources, which documents them.
type Resources struct {
	CPU       float64
	GPU       float64
	GPUMemory int64
	GPUModel  string
	Memory    int64
	Custom    map[string]float64
}

// maxAmount bounds what is counted, so that sums of thousandths cannot overflow.
const maxAmount = 1e9

// maxMemory bounds memory, in bytes: a hundred times what the largest machines have, and a number that a float64 holds.
const maxMemory = 1 << 53

// Validate reports the first amount that cannot be meant: negative, NaN, infinite, beyond a billion, or 8 PiB of memory, or below
// 1/1000. What a program says is to be Meant, too; what was computed, stored or sent need not be.
func (r Resources) Validate() error {
	check := func(name string, v float64) error {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("%w: %s is %v: give a finite number", ErrBadOption, name, v)
		case v < 0:
			return fmt.Errorf("%w: %s is %v: resources cannot be negative", ErrBadOption, name, v)
		case v > maxAmount:
			return fmt.Errorf("%w: %s is %v: no node has more than %v", ErrBadOption, name, v, float64(maxAmount))
		case v > 0 && v < 0.001:
			return fmt.Errorf("%w: %s is %v: the smallest share is 0.001", ErrBadOption, name, v)
		}
		return nil
	}
	if err := check("CPU", r.CPU); err != nil {
		return err
	}
	if err := check("GPU", r.GPU); err != nil {
		return err
	}
	for _, m := range []struct {
		name  string
		bytes int64
	}{{"Memory", r.Memory}, {"GPUMemory", r.GPUMemory}} {
		if m.bytes < 0 {
			return fmt.Errorf("%w: %s is %d: resources cannot be negative", ErrBadOption, m.name, m.bytes)
		}
		if m.bytes > maxMemory {
			return fmt.Errorf("%w: %s is %s: no node has more than %s", ErrBadOption, m.name, Bytes(m.bytes), Bytes(maxMemory))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		if k == "" {
			return fmt.Errorf("%w: a custom resource needs a name", ErrBadOption)
		}
		if err := check(k, r.Custom[k]); err != nil {
			return err
		}
	}
	return nil
}

// Meant reports what a program cannot mean, though Validate lets it pass: amounts that are no multiple of 1/1000, within what sums of
// such amounts are off, which would be rounded; and a custom resource under the name of one that is none.
func (r Resources) Meant() error {
	check := func(name string, v float64) error {
		if n := v * 1000; n >= 1 && math.Abs(n-math.Round(n)) > 1e-6+n*1e-14 {
			return fmt.Errorf("%w: %s is %v: amounts are counted in thousandths: give %v", ErrBadOption, name, v, math.Round(n)/1000)
		}
		return nil
	}
	err := errors.Join(check("CPU", r.CPU), check("GPU", r.GPU))
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		err = errors.Join(err, check(k, r.Custom[k]))
		if own, taken := ownNames[strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(k))]; taken {
			err = errors.Join(err, fmt.Errorf("%w: %q is no custom resource: give raysys.%s, or system.Config.Resources.%s, or --%s", ErrBadOption, k, own.field, own.field, own.flag))
		}
	}
	return err
}

// ownNames are the resources that are not custom, by their names in small letters.
var ownNames = map[string]struct{ field, flag string }{
	"cpu": {"CPU", "cpu"}, "gpu": {"GPU", "gpu"}, "gpumemory": {"GPUMemory", "gpu-memory"}, "gpumodel": {"GPUModel", "gpu-model"}, "memory": {"Memory", "memory"},
}

// ValidateWanted is Validate for what work asks for: devices are whole, or a share of one.
func (r Resources) ValidateWanted() error {
	if err := r.Validate(); err != nil {
		return err
	}
	if r.GPU > 1 && r.GPU != math.Trunc(r.GPU) {
		return fmt.Errorf("%w: GPU is %v: give a share of one device, below 1, or a number of whole devices", ErrBadOption, r.GPU)
	}
	if r.GPU == 0 && (r.GPUMemory != 0 || r.GPUModel != "") {
		return fmt.Errorf("%w: %v says which devices, and GPU how many: give GPU too", ErrBadOption, Resources{GPUMemory: r.GPUMemory, GPUModel: r.GPUModel})
	}
	return nil
}

// String lists what is not zero, bytes to four digits: other amounts may have the same text.
func (r Resources) String() string {
	var s []string
	add := func(name string, v float64) {
		if v != 0 {
			s = append(s, fmt.Sprintf("%s %g", name, v))
		}
	}
	add("CPU", r.CPU)
	add("GPU", r.GPU)
	if r.GPUModel != "" {
		s = append(s, fmt.Sprintf("GPUModel %q", r.GPUModel))
	}
	if r.GPUMemory != 0 {
		s = append(s, "GPUMemory "+Bytes(r.GPUMemory))
	}
	if r.Memory != 0 {
		s = append(s, "Memory "+Bytes(r.Memory))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		add(k, r.Custom[k])
	}
	if s == nil {
		return "nothing"
	}
	return strings.Join(s, ", ")
}
