//go:build race

package tally

import (
	"sync/atomic"
	"unsafe"
)

// set is an atomic store, which the race detector can tell from a mistake.
func set[T any](p **T, v *T) {
	atomic.StorePointer((*unsafe.Pointer)(unsafe.Pointer(p)), unsafe.Pointer(v))
}

// setTime is set for a time.
func setTime(p *int64, v int64) { atomic.StoreInt64(p, v) }
