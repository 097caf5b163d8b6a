package cuda

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// Module is compiled PTX on a device.
type Module struct {
	ctx    *Context
	handle uintptr
}

// Load has the driver compile PTX for the device.
func (c *Context) Load(ptx []byte) (*Module, error) {
	image := append(append(make([]byte, 0, len(ptx)+1), ptx...), 0)
	m := &Module{ctx: c}
	r := c.driver.moduleLoad(&m.handle, &image[0])
	runtime.KeepAlive(image)
	return m, c.driver.check("cuModuleLoadData", r)
}

// Unload gives it back.
func (m *Module) Unload() error {
	return m.ctx.driver.check("cuModuleUnload", m.ctx.driver.moduleUnload(m.handle))
}

// Kernel is a function of a module that a device runs.
type Kernel struct {
	driver *Driver
	handle uintptr
	name   string
}

// Kernel finds one by its name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	k := &Kernel{driver: m.ctx.driver, name: name}
	if err := k.driver.check("cuModuleGetFunction", k.driver.moduleFind(&k.handle, m.handle, name)); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return k, nil
}

// Size is that of a grid, or of a block of threads.
type Size struct{ X, Y, Z uint32 }

// maxArgs is more than any kernel here has.
const maxArgs = 16

// Launch has the device run the kernel, after what was launched before. An argument is a Memory, an int that a C int holds, or
// a float32.
func (k *Kernel) Launch(grid, block Size, args ...any) error {
	var words [maxArgs]uint64
	var at [maxArgs + 1]unsafe.Pointer
	if len(args) > maxArgs {
		return fmt.Errorf("kernel %s: %d arguments: give at most %d", k.name, len(args), maxArgs)
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case Memory:
			words[i] = v.at
		case int:
			if v < math.MinInt32 || v > math.MaxInt32 {
				return fmt.Errorf("kernel %s: argument %d is %d: a kernel counts to %d", k.name, i, v, math.MaxInt32)
			}
			words[i] = uint64(uint32(int32(v)))
		case float32:
			words[i] = uint64(math.Float32bits(v))
		default:
			return fmt.Errorf("kernel %s: argument %d is a %T: give Memory, int or float32", k.name, i, arg)
		}
		at[i] = unsafe.Pointer(&words[i]) // GPUs and their hosts are little-endian: the value is in the first bytes
	}
	r := k.driver.launch(k.handle, grid.X, grid.Y, grid.Z, block.X, block.Y, block.Z, 0, 0, &at[0], 0)
	runtime.KeepAlive(&words)
	runtime.KeepAlive(&at)
	if err := k.driver.check("cuLaunchKernel", r); err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	return nil
}
