package ledger

import (
	"strconv"

	"github.com/raysys/raysys/internal/core"
)

// Device is one accelerator of a node.
type Device struct {
	UUID   string
	Model  string
	Memory int64 // bytes; 0 where that is not known
	Share  int64 // thousandths of it that the node was given; 0 is all of it
}

// Unnamed returns devices of which no more is known than their number, in thousandths; a rest is a share of one.
func Unnamed(n int64) (list []Device) {
	for ; n > 0; n -= Unit {
		list = append(list, Device{UUID: strconv.Itoa(len(list)), Share: min(n, Unit)})
	}
	return list
}

// device is a Device with what is free of it.
type device struct {
	Device
	total  int64 // thousandths; below 1000 for a share of a device that the node was given
	free   int64
	memory int64 // free bytes
	sick   bool
}

// could reports whether the device, when nothing holds it, has one device's part of n.
func (d *device) could(n *Need) bool {
	return core.OfModel(d.Model, n.GPUModel) && n.GPUMemory <= d.Memory && min(n.GPU, Unit) <= d.total
}

// can reports whether it has that now.
func (d *device) can(n *Need) bool {
	return !d.sick && d.could(n) && min(n.GPU, Unit) <= d.free && n.GPUMemory <= d.memory
}

// count is how many devices n asks for.
func (n *Need) count() int {
	if n.GPU == 0 {
		return 0
	}
	return max(int(n.GPU/Unit), 1)
}

// pick returns the devices that are not owed of which n gets those that choose takes, or false. A share goes to the device of which the least is
// left, so that whole devices stay whole.
func (l *Ledger) pick(n *Need, o *owed) (list []int, ok bool) {
	k := n.count()
	if k == 0 {
		return nil, true
	}
	best := -1
	for i := range l.devices {
		d := &l.devices[i]
		if !d.can(n) || o != nil && o.device(i) {
			continue
		}
		if n.GPU >= Unit {
			list = append(list, i)
		} else if best < 0 || d.free < l.devices[best].free {
			best = i
		}
	}
	if best >= 0 {
		return []int{best}, true
	}
	return list, len(list) >= k
}

// take chooses the devices that n gets among those that pick has returned: the first, unless a Choose knows better.
func (l *Ledger) take(n *Need, list []int) []int {
	k := n.count()
	if len(list) <= k {
		return list
	}
	if l.choose != nil {
		return l.choose(list, k)
	}
	return list[:k:k]
}
