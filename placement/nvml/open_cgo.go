//go:build cgo && linux

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/raysys/raysys/placement/devices"
)

// open loads the library of that name by itself before go-nvml does: go-nvml looks symbols up only after its Init, which calls
// one of them.
func open(name string) (devices.Library, error) {
	lib := dl.New(name, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := lib.Open(); err != nil {
		return nil, fmt.Errorf("%w: the NVIDIA driver's library cannot be loaded: %w: install the driver, or show it to this container", devices.ErrNoLibrary, err)
	}
	return start(nvml.New(nvml.WithLibraryPath(name)), lib.Lookup)
}

// start initializes the library. lookup returns an error for a symbol that it lacks.
func start(api nvml.Interface, lookup func(symbol string) error) (*library, error) {
	l := &library{api: api, symbols: symbols{lookup: lookup, found: map[string]bool{}}}
	for _, needed := range [][]string{initSymbols, countSymbols, handleSymbols, {"nvmlDeviceGetUUID"}} {
		if !l.has(needed...) {
			return nil, fmt.Errorf("%w: the NVIDIA driver's library has no %s: it is too old", devices.ErrNoLibrary, needed[0])
		}
	}
	if err := failure("start the NVIDIA driver's library", api.Init()); err != nil {
		return nil, fmt.Errorf("%w: %w", devices.ErrNoLibrary, err)
	}
	return l, nil
}
