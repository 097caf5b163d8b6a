//go:build cgo && linux

package nvml

import "sync"

// Functions that a driver has in one of several versions: go-nvml takes the newest that is there.
var (
	initSymbols     = []string{"nvmlInit_v2", "nvmlInit"}
	countSymbols    = []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}
	handleSymbols   = []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}
	pciSymbols      = []string{"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"}
	remoteSymbols   = []string{"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"}
	eventSymbols    = []string{"nvmlEventSetWait_v2", "nvmlEventSetWait"}
	migSymbols      = []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"}
	registerSymbols = []string{"nvmlEventSetCreate", "nvmlDeviceRegisterEvents"}
)

// symbols knows what the library has.
type symbols struct {
	lookup func(symbol string) error
	mu     sync.Mutex // guards found: GPUs are asked at the same time
	found  map[string]bool
}

// has reports whether the library has one of these symbols.
func (s *symbols) has(any ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range any {
		ok, known := s.found[name]
		if !known {
			ok = s.lookup(name) == nil
			s.found[name] = ok
		}
		if ok {
			return true
		}
	}
	return false
}

// hasAll reports whether it has all of them.
func (s *symbols) hasAll(names ...string) bool {
	for _, name := range names {
		if !s.has(name) {
			return false
		}
	}
	return true
}
