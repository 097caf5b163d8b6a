package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys/internal/core"
)

// What asks for devices that are sick begins nowhere here until they are well, and nothing says that they will be. So it is answered as what
// the node never has, unless it is to wait for resources: by who places it, by what Unwell says and nodes report (Report, Rooms), and by
// Move where it waits when they fall sick.

// ErrSick is why devices do not do for n that would if these were well. It matches core.ErrDeviceSick.
func ErrSick(n Need, sick []string) error {
	n.Bundle = core.Bundle{}
	return fmt.Errorf("it asks for %v: %w: %s", n, core.ErrDeviceSick, strings.Join(sick, ", "))
}

// SetSick is Ledger.SetSick.
func (l *Line) SetSick(uuid string, sick bool) bool {
	l.mu.Lock()
	known := l.ledger.SetSick(uuid, sick)
	l.staying.SetSick(uuid, sick)
	l.ill.Store(slices.ContainsFunc(l.ledger.devices, func(d device) bool { return d.sick }))
	l.report.Store(nil)
	l.mu.Unlock()
	for _, b := range l.all() {
		b.SetSick(uuid, sick)
	}
	l.Serve()
	if l.hooks.Changed != nil {
		l.hooks.Changed()
	}
	return known
}

// Ill reports whether a device of the node is sick.
func (l *Line) Ill() bool { return l.ill.Load() }

// Sick reports whether h, which may be nil, has a sick device.
func (l *Line) Sick(h *Hold) bool {
	if h == nil || len(h.devices) == 0 {
		return false
	}
	l = l.Of(h)
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(h.devices, func(i int) bool { return l.ledger.devices[i].sick })
}

// Could reports whether the node has the devices that n asks for once all that holds them is given back, of those that are not sick.
func (l *Line) Could(n Need) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.could(&n)
}

// Unwell says which devices are sick where n would have enough of them if all were well, and has not. Where n names a group, it looks at each bundle of the
// group on this node. It returns nil where sickness is not the reason, and where no such bundle is here. The error matches core.ErrDeviceSick.
func (l *Line) Unwell(n Need) (err error) {
	if n.count() == 0 || !l.Ill() {
		return nil
	}
	list := []*Line{l}
	if n.Bundle.Group != "" {
		list = nil
		bundles := l.named(n.Bundle)
		slices.SortFunc(bundles, func(a, b *Bundle) int { return cmp.Compare(a.name.Index, b.name.Index) }) // so that it says the same each time
		for _, b := range bundles {
			if ever := b.Ever(n); ever.Empty() {
				list = append(list, &b.Line)
			}
		}
	}
	for _, of := range list {
		of.mu.Lock()
		err = of.ledger.unwell(&n)
		of.mu.Unlock()
		if err == nil {
			return nil
		}
	}
	return err
}
