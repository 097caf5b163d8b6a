//go:build !cgo && linux

package nvml

import (
	"strings"
	"testing"

	"github.com/raysys/raysys/placement/devices"
)

// TestWithoutCgo: a program that was built without cgo says what it lacks and how to build it.
func TestWithoutCgo(t *testing.T) {
	if _, err := devices.Open("auto", devices.Config{}); err == nil || !strings.Contains(err.Error(), "build it with CGO_ENABLED=1") {
		t.Errorf("auto says: %v", err)
	}
}
