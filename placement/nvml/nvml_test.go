package nvml

import (
	"errors"
	"testing"

	"github.com/raysys/raysys/placement/devices"
)

// TestImportRegisters: whoever imports the package has "auto"; without a driver or cgo it says so in one sentence.
func TestImportRegisters(t *testing.T) {
	if _, err := devices.Open("auto", devices.Config{}); errors.Is(err, devices.ErrNotLinked) {
		t.Errorf("package nvml is linked in, and auto says: %v", err)
	}
	_, err := open("libraysys-there-is-none.so.1")
	if !errors.Is(err, devices.ErrNoLibrary) {
		t.Errorf("a library that is not there: got %v", err)
	}
}
