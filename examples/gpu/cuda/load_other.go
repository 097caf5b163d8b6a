//go:build !linux

package cuda

import (
	"fmt"
	"runtime"
)

// load says what is missing: this file is built where the other is not.
func load(name string) (symbol func(string) (uintptr, error), err error) {
	return nil, fmt.Errorf("%s is looked for on Linux only, and this is %s", name, runtime.GOOS)
}
