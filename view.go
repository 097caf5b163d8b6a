package raysys

import (
	"context"

	"github.com/raysys/raysys/internal/core"
)

// View calls f with the value of r, waiting for it if need be, and returns f's error. The errors of waiting are those of
// Get.
//
// The value is shared: f must not change it, and must not keep it, nor any slice of it, after it has returned, for what is
// behind it may be memory that another process shares, a file, or the network's. Numeric slices and []byte are not copied
// where that can be avoided; strings always are. What f needs later it copies. Get returns memory that stays; a value that was made
// in this process is the one that its maker has, and must not be changed either. While View waits, a task's CPU is given back; while f runs it is not.
func View[T any](ctx context.Context, r Ref[T], f func(T) error) error {
	return core.View(ctx, core.Ref[T](r), f)
}
