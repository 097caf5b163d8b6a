package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// most is what nodes have, when nothing holds it, of what work asks for: of each resource the most that one of them has; of GPU,
// the devices that would do.
type most struct {
	want  *raysys.Resources
	has   raysys.Resources
	kinds core.DeviceKinds
	names map[string]bool // of the custom resources that there are
}

// mostOf is the most of all these nodes.
func mostOf(nodes []*Node, want *raysys.Resources) *most {
	m := newMost(want)
	for _, n := range nodes {
		m.add(n)
	}
	return m
}

func newMost(want *raysys.Resources) *most {
	return &most{want: want, kinds: core.DeviceKinds{Want: core.Resources(*want)}, names: map[string]bool{}}
}

func (m *most) add(n *Node) {
	if m.want.CPU > 0 {
		m.has.CPU = max(m.has.CPU, n.Total.CPU)
	}
	if m.want.Memory > 0 {
		m.has.Memory = max(m.has.Memory, n.Total.Memory)
	}
	if m.want.GPU > 0 {
		m.addDevices(n)
	}
	if len(m.want.Custom) == 0 {
		return
	}
	for name, have := range n.Total.Custom {
		if have <= 0 {
			continue
		}
		m.names[name] = true
		if _, asked := m.want.Custom[name]; asked && have > m.has.Custom[name] {
			if m.has.Custom == nil {
				m.has.Custom = map[string]float64{}
			}
			m.has.Custom[name] = have
		}
	}
}

func (m *most) addDevices(n *Node) {
	count := 0.0
	for i := range n.Devices {
		d := &n.Devices[i]
		if m.kinds.Add(d.Model, d.Memory, d.total()); d.has(m.want, idle) {
			count++
		}
	}
	if n.Devices == nil && n.Total.GPU > 0 {
		if m.kinds.Add("", 0, min(n.Total.GPU, 1)); m.want.GPUModel == "" && m.want.GPUMemory == 0 {
			count = n.Total.GPU
		}
	}
	m.has.GPU = max(m.has.GPU, count)
}

// String lists what is there, and of what is not there at all which devices and which custom resources are.
func (m *most) String() string {
	has := m.has
	if has.GPU > 0 {
		has.GPUModel, has.GPUMemory = m.want.GPUModel, m.want.GPUMemory
	}
	var parts []string
	if s := has.String(); s != "nothing" {
		parts = append(parts, s)
	}
	if m.want.GPU > 0 && has.GPU == 0 {
		parts = append(parts, m.kinds.String())
	}
	missing := false
	for _, name := range slices.Sorted(maps.Keys(m.want.Custom)) {
		if m.want.Custom[name] > 0 && has.Custom[name] == 0 {
			parts, missing = append(parts, "no "+name), true
		}
	}
	if parts == nil {
		return has.String()
	}
	s := strings.Join(parts, ", ")
	if missing && len(m.names) > 0 {
		s += fmt.Sprintf(", but %s", core.Listed(slices.Sorted(maps.Keys(m.names)), " and "))
	}
	return s
}
