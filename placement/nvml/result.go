//go:build cgo && linux

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/raysys/raysys/placement/devices"
)

// texts are what results mean to an operator.
var texts = map[nvml.Return]string{
	nvml.ERROR_UNINITIALIZED:           "the library is not initialized",
	nvml.ERROR_INVALID_ARGUMENT:        "invalid argument",
	nvml.ERROR_NOT_SUPPORTED:           "not supported",
	nvml.ERROR_NO_PERMISSION:           "no permission: see the rights on /dev/nvidia*",
	nvml.ERROR_NOT_FOUND:               "not found",
	nvml.ERROR_INSUFFICIENT_POWER:      "the power cables of the GPU are not attached",
	nvml.ERROR_DRIVER_NOT_LOADED:       "the NVIDIA driver is not loaded",
	nvml.ERROR_TIMEOUT:                 "time is up",
	nvml.ERROR_IRQ_ISSUE:               "the kernel found an interrupt issue with the GPU",
	nvml.ERROR_LIBRARY_NOT_FOUND:       "the library was not found",
	nvml.ERROR_CORRUPTED_INFOROM:       "the GPU's own table of facts (infoROM) is corrupted",
	nvml.ERROR_RESET_REQUIRED:          "the GPU must be reset",
	nvml.ERROR_OPERATING_SYSTEM:        "the operating system has blocked the GPU",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "the library and the loaded driver are of different versions: restart the host",
	nvml.ERROR_MEMORY:                  "out of memory",
	nvml.ERROR_UNKNOWN:                 "unknown error of the driver",
}

// failure is the error of a call that did not succeed. The result itself is not printed: its Error calls the library.
func failure(what string, r nvml.Return) error {
	switch r {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_GPU_IS_LOST:
		return fmt.Errorf("%s: %w", what, devices.ErrLost)
	}
	text, ok := texts[r]
	if !ok {
		text = fmt.Sprintf("result %d of the driver", int(r))
	}
	return fmt.Errorf("%s: %s", what, text)
}

// unknown reports whether a result says no more than that the driver does not tell: it is no failure of the GPU.
func unknown(r nvml.Return) bool {
	switch r {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_DATA, nvml.ERROR_NOT_FOUND:
		return true
	}
	return false
}
