package system

import (
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/taskengine"
)

// What a bundle was asked for says neither of which models its devices are nor how much memory they have. Its node says which devices
// they are (taskengine.AppendReport), and the node's record what these are like. So work that may be in any bundle, and asks for a model or for
// memory of a device, does not come to a bundle that never has that, whose node would fail it.

// devicePause is how soon work is placed again when a node has not said which devices its bundle has: it does within restEvery.
const devicePause = restEvery + 10*time.Millisecond

// doing returns the bundles whose devices, when all of them are free, do for work. complete says that the list has all bundles of the group.
func (g *groups) doing(list []memberBundle, need ledger.Need, complete bool) ([]memberBundle, error) {
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
		g.runner.After(devicePause, g.node.tasks.RetryBundles)
		return nil, noBundle{fmt.Errorf("%s has not said yet which devices it has", groupengine.Shown(need.Bundle.Group))}
	case !complete:
		return nil, noBundle{fmt.Errorf("%s has no room yet for a bundle that may do", groupengine.Shown(need.Bundle.Group))}
	}
	return nil, fmt.Errorf("%w: it asks for %v, and the devices of no bundle do", raysys.ErrNoCapacity, core.Resources(need.Resources()))
}

// does reports whether the devices of a bundle, when all of them are free, do for work, if which devices they are is known.
func (g *groups) does(m *memberBundle, need ledger.Need) (does, known bool) {
	if m.At == g.self() {
		return g.node.tasks.Line().EverIn(m.name, need)
	}
	numbers, known := g.room.devices(m.At, m.name)
	if !known {
		return false, false
	}
	on := g.node.cluster.mesh.Info(m.At).Devices
	var list []ledger.Device
	for _, i := range numbers {
		if i < len(on) {
			list = append(list, ledger.Device{Model: on[i].Model, Memory: on[i].Memory})
		}
	}
	if len(list) == 0 {
		return true, true // the node decides
	}
	return ledger.Do(list, ledger.Of(core.Resources(m.Needs)), need), true
}

// devices returns the numbers of the devices of a bundle, if its node has said which those are. Of a node with more bundles than it
// reports they are not known, and the node decides.
func (r *bundleRooms) devices(at core.NodeKey, name core.Bundle) (numbers []int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of[at]
	if n == nil {
		return nil, false
	}
	if b := n.bundles[name]; b != nil && b.said {
		return b.known.Numbers, true
	}
	return nil, len(n.bundles) >= taskengine.MaxRooms
}
