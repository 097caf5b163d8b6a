package nodedevices

import (
	"sync"

	"go.uber.org/zap"
)

// Health is what a node knows of its devices, and who is to be told.
type Health struct {
	Log     *zap.Logger
	Changed func(uuid string, sick bool) // keeps a device from new work, or gives it some again
	Short   func()                       // has idle work give up what it holds

	mu      sync.Mutex        // guards the rest
	sick    map[string]string // why, by UUID
	watches map[*deviceWatch]struct{}
}

// deviceWatch is told of the first device that is sick. It is out of watches before it is called.
type deviceWatch struct {
	uuids []string
	tell  func(uuid, cause string)
}

// Watch calls tell once when one of the devices is sick, unless stop was called before.
func (h *Health) Watch(uuids []string, tell func(uuid, cause string)) (stop func()) {
	h.mu.Lock()
	for _, id := range uuids {
		if cause := h.sick[id]; cause != "" {
			h.mu.Unlock()
			tell(id, cause)
			return func() {}
		}
	}
	if h.watches == nil {
		h.watches = map[*deviceWatch]struct{}{}
	}
	w := &deviceWatch{uuids, tell}
	h.watches[w] = struct{}{}
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		delete(h.watches, w)
		h.mu.Unlock()
	}
}

// set enters what a device is sick of, "" for nothing, and reports whether that is news. tell tells those that watch it.
func (h *Health) set(uuid, cause string) (tell func(), news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sick[uuid] == cause {
		return nil, false
	}
	if h.sick == nil {
		h.sick = map[string]string{}
	}
	h.sick[uuid] = cause
	var told []*deviceWatch
	for w := range h.watches {
		for _, id := range w.uuids {
			if id == uuid && cause != "" {
				delete(h.watches, w)
				told = append(told, w)
				break
			}
		}
	}
	return func() {
		for _, w := range told {
			w.tell(uuid, cause)
		}
	}, true
}
