//go:build !cgo || !linux

package nvml

import (
	"fmt"
	"runtime"

	"github.com/raysys/raysys/placement/devices"
)

// open says what is missing: this file is built where the other is not.
func open(string) (devices.Library, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: raysys looks for them on Linux only", devices.ErrNoLibrary)
	}
	return nil, fmt.Errorf("%w: this program was built without cgo: build it with CGO_ENABLED=1 and a C compiler", devices.ErrNoLibrary)
}
