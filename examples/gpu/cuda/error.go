package cuda

import (
	"errors"
	"fmt"
)

// What a host lacks.
var (
	ErrNoDriver = errors.New("no NVIDIA driver")
	ErrNoDevice = errors.New("no GPU")
)

// Error is the result of a call that did not succeed. After most of those that a kernel causes, a Context is of no more use.
type Error struct {
	Call string // of the library
	Code int32
	Text string // as the library has it; empty where that has none
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: result %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: result %d, %s", e.Call, e.Code, e.Text)
}

// noDevice is CUDA_ERROR_NO_DEVICE.
const noDevice = 100

// Is reports a host without GPUs as ErrNoDevice.
func (e *Error) Is(target error) bool { return target == ErrNoDevice && e.Code == noDevice }
