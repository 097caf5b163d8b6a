package core

import (
	"slices"
	"strconv"
)

// DeviceWatcher is a Runtime whose node hears of devices that fail.
type DeviceWatcher interface {
	// WatchDevices calls sick once, with the first of these devices that is sick or falls sick, and why. stop ends the watch.
	WatchDevices(uuids []string, sick func(uuid, cause string)) (stop func())
}

// Holder is what NewTurn's Attached has to be for its turns to hold devices: the activation of a grain.
type Holder interface{ Devices() []string }

// DeviceKinds gathers which devices there are, to say so where none of them does for what Want asks of one.
type DeviceKinds struct {
	Want Resources

	models []string // of all, each once, in order
	meant  bool     // one is of the model asked for
	memory int64    // the most that one of those has
	share  float64  // the largest part that there is of one of those with memory enough
}

// Add enters a device, of which the node has that share.
func (k *DeviceKinds) Add(model string, memory int64, share float64) {
	if i, known := slices.BinarySearch(k.models, model); !known {
		k.models = slices.Insert(k.models, i, model)
	}
	if !OfModel(model, k.Want.GPUModel) {
		return
	}
	k.meant = true
	if k.memory = max(k.memory, memory); memory >= k.Want.GPUMemory {
		k.share = max(k.share, share)
	}
}

// String says the models, where none is meant, else the most memory of a device, where that is too little, else the largest share.
func (k *DeviceKinds) String() string {
	switch {
	case len(k.models) == 0:
		return "no GPU"
	case k.meant && k.memory >= k.Want.GPUMemory:
		return Resources{GPU: k.share}.String()
	case k.meant && k.memory == 0:
		return "GPUs whose memory is not known"
	case k.meant:
		return Resources{GPUMemory: k.memory}.String()
	}
	var names []string
	for _, m := range k.models {
		if m != "" {
			names = append(names, strconv.Quote(m))
		}
	}
	if names == nil {
		return "GPUs whose model is not known"
	}
	return "GPUModel " + Listed(names, " or ")
}
