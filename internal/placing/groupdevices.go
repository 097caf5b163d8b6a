package placing

import (
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
)

// What a bundle was asked for says neither of which models its devices are nor how much memory they have. Its node says which devices
// they are (loadreport.Append), and the node's record what these are like. So work that may be in any bundle, and asks for a model or for
// memory of a device, does not come to a bundle that never has that, whose node would fail it.

// devicePause is how soon work is placed again when a node has not said which devices its bundle has: it does within restEvery.
const devicePause = restEvery + 10*time.Millisecond

// doing returns the bundles whose devices, when all of them are free, do for work. complete says that the list has all bundles of the group.
func (g *Groups) doing(list []memberBundle, need ledger.Need, complete bool) ([]memberBundle, error) {
	if need.GPUModel == "" && need.GPUMemory == 0 {
		return list, nil
	}
	unknown := false
	list = slices.DeleteFunc(list, func(m memberBundle) bool {
		does, known := g.does(&m, need)
		unknown = unknown || !known
		return !does
	})
	switch {
	case len(list) > 0:
		return list, nil
	case unknown:
		g.Runner.After(devicePause, g.tasks.RetryBundles)
		return nil, noBundle{fmt.Errorf("%s has not said yet which devices it has", groupengine.Shown(need.Bundle.Group))}
	case !complete:
		return nil, noBundle{fmt.Errorf("%s has no room yet for a bundle that may do", groupengine.Shown(need.Bundle.Group))}
	}
	return nil, fmt.Errorf("%w: it asks for %v, and the devices of no bundle do", raysys.ErrNoCapacity, core.Resources(need.Resources()))
}

// does reports whether the devices of a bundle, when all of them are free, do for work, if which devices they are is known.
func (g *Groups) does(m *memberBundle, need ledger.Need) (does, known bool) {
	if m.At == g.Self() {
		return g.tasks.Line().EverIn(m.name, need)
	}
	well, sick, known := g.devices(m)
	if !known {
		return false, false
	}
	if len(well)+len(sick) == 0 {
		return true, true // the node decides
	}
	return ledger.Do(slices.Concat(well, sick), ledger.Of(core.Resources(m.Needs)), need), true
}

// well leaves out the bundles of which too many devices are sick for work, as far as is known. Where none is left the error names the devices
// of one. complete says that the list has all bundles that may do.
func (g *Groups) well(list []memberBundle, need ledger.Need, complete bool) (do []memberBundle, err error) {
	if need.GPU == 0 {
		return list, nil
	}
	for i := range list {
		if lacks := g.lacks(&list[i], need); lacks == nil {
			do = append(do, list[i])
		} else {
			err = fmt.Errorf("%w: bundle %d of %s: %w", raysys.ErrNoCapacity, list[i].name.Index, groupengine.Shown(need.Bundle.Group), lacks)
		}
	}
	switch {
	case len(do) > 0:
		return do, nil
	case !complete:
		return nil, noBundle{err}
	}
	return nil, err
}

// lacks is why the devices of a bundle that are not sick do not do for work, and all of them would; nil where that is not so, as far as is known.
func (g *Groups) lacks(m *memberBundle, need ledger.Need) error {
	if need.Bundle = m.name; m.At == g.Self() {
		return g.tasks.Line().Unwell(need)
	}
	well, sick, known := g.devices(m)
	if has := ledger.Of(core.Resources(m.Needs)); !known || len(sick) == 0 || ledger.Do(well, has, need) || !ledger.Do(slices.Concat(well, sick), has, need) {
		return nil
	}
	var names []string
	for _, d := range sick {
		names = append(names, d.UUID)
	}
	return ledger.ErrSick(need, names)
}

// devices are those of a bundle of another node, if that has said which those are. Of a node with more bundles than it reports they
// are not known, and the node decides.
func (g *Groups) devices(m *memberBundle) (well, sick []ledger.Device, known bool) {
	room, known := g.room.room(m.At, m.name)
	if !known {
		return nil, nil, false
	}
	on := g.Placer.Mesh.Info(m.At).Devices
	for i, n := range room.Numbers {
		if n >= len(on) {
			continue
		}
		d := ledger.Device{UUID: on[n].UUID, Model: on[n].Model, Memory: on[n].Memory}
		if i < len(room.Rest.Devices) && room.Rest.Devices[i].Sick {
			sick = append(sick, d)
		} else {
			well = append(well, d)
		}
	}
	return well, sick, true
}

// room returns what the node of a bundle has said of it. Of one with more bundles than it reports nothing is to be heard: that is known, too.
func (r *bundleRooms) room(at core.NodeKey, name core.Bundle) (said ledger.Room, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of[at]
	if n == nil {
		return said, false
	}
	if b := n.bundles[name]; b != nil && b.said {
		return b.known, true
	}
	return said, len(n.bundles) >= loadreport.MaxRooms
}
