package nvml

import "github.com/raysys/raysys/placement/devices"

func init() { devices.Register(Open) }

// Open loads the driver's library. The error matches devices.ErrNoLibrary where that cannot be. The library stays loaded: a
// call that hangs in it could not be ended.
func Open() (devices.Library, error) { return open(libraryName) }

// libraryName is that of the driver's library, which the loader looks for: LD_LIBRARY_PATH comes first.
const libraryName = "libnvidia-ml.so.1"
