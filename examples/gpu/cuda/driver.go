package cuda

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Driver is libcuda.
type Driver struct {
	start        func(flags uint32) int32
	version      func(v *int32) int32
	errorText    func(code int32, text **byte) int32
	count        func(n *int32) int32
	device       func(d *int32, ordinal int32) int32
	deviceName   func(b *byte, n, device int32) int32
	deviceUUID   func(b *[16]byte, device int32) int32
	deviceMemory func(n *uintptr, device int32) int32
	retain       func(ctx *uintptr, device int32) int32
	release      func(device int32) int32
	setCurrent   func(ctx uintptr) int32
	moduleLoad   func(module *uintptr, image *byte) int32
	moduleUnload func(module uintptr) int32
	moduleFind   func(f *uintptr, module uintptr, name string) int32
	alloc        func(p *uint64, n uintptr) int32
	free         func(p uint64) int32
	copyTo       func(p uint64, from unsafe.Pointer, n uintptr) int32
	copyFrom     func(to unsafe.Pointer, p uint64, n uintptr) int32
	launch       func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, args *unsafe.Pointer, extra uintptr) int32
}

// libraryName is that of the driver's library.
const libraryName = "libcuda.so.1"

// Open loads the driver's library and starts it. The error matches ErrNoDriver where there is none, ErrNoDevice where it has
// no GPU.
func Open() (*Driver, error) {
	lib, err := Load(libraryName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: install the driver, or show it to this container", ErrNoDriver, err)
	}
	d := new(Driver)
	err = lib.bind([]function{
		{&d.start, []string{"cuInit"}},
		{&d.version, []string{"cuDriverGetVersion"}},
		{&d.errorText, []string{"cuGetErrorString"}},
		{&d.count, []string{"cuDeviceGetCount"}},
		{&d.device, []string{"cuDeviceGet"}},
		{&d.deviceName, []string{"cuDeviceGetName"}},
		{&d.deviceUUID, []string{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}}, // the first has the UUIDs of MIG instances
		{&d.deviceMemory, []string{"cuDeviceTotalMem_v2"}},
		{&d.retain, []string{"cuDevicePrimaryCtxRetain"}},
		{&d.release, []string{"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}},
		{&d.setCurrent, []string{"cuCtxSetCurrent"}},
		{&d.moduleLoad, []string{"cuModuleLoadData"}},
		{&d.moduleUnload, []string{"cuModuleUnload"}},
		{&d.moduleFind, []string{"cuModuleGetFunction"}},
		{&d.alloc, []string{"cuMemAlloc_v2"}},
		{&d.free, []string{"cuMemFree_v2"}},
		{&d.copyTo, []string{"cuMemcpyHtoD_v2"}},
		{&d.copyFrom, []string{"cuMemcpyDtoH_v2"}},
		{&d.launch, []string{"cuLaunchKernel"}},
	})
	if err != nil {
		return nil, fmt.Errorf("%w that can be used: %w: it is too old", ErrNoDriver, err)
	}
	if err := d.check("cuInit", d.start(0)); err != nil {
		return nil, err
	}
	return d, nil
}

// check makes the result of a call an error.
func (d *Driver) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: code}
	var text *byte
	if d.errorText(code, &text) == 0 && text != nil {
		e.Text = goString(text)
	}
	return e
}

// goString copies a string of the library.
func goString(p *byte) string {
	const most = 1 << 10
	b := unsafe.Slice(p, most)
	for i := range b {
		if b[i] == 0 {
			return string(b[:i])
		}
	}
	return ""
}

// Version is the newest CUDA that the driver knows: "12.4".
func (d *Driver) Version() (string, error) {
	var v int32
	err := d.check("cuDriverGetVersion", d.version(&v))
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), err
}

// Device is one that this process sees: CUDA_VISIBLE_DEVICES limits those.
type Device struct {
	UUID   string // as raysys.Devices has it: "GPU-..."; that of a MIG instance begins with "MIG-" there
	Name   string
	Memory int64 // bytes
	handle int32
}

// Devices lists them.
func (d *Driver) Devices() ([]Device, error) {
	var n int32
	if err := d.check("cuDeviceGetCount", d.count(&n)); err != nil {
		return nil, err
	}
	list := make([]Device, n)
	for i := range list {
		var name [256]byte
		var uuid [16]byte
		var bytesOf uintptr
		v := &list[i]
		for _, err := range []error{
			d.check("cuDeviceGet", d.device(&v.handle, int32(i))),
			d.check("cuDeviceGetName", d.deviceName(&name[0], int32(len(name)-1), v.handle)),
			d.check("cuDeviceGetUuid", d.deviceUUID(&uuid, v.handle)),
			d.check("cuDeviceTotalMem", d.deviceMemory(&bytesOf, v.handle)),
		} {
			if err != nil {
				return nil, fmt.Errorf("device %d: %w", i, err)
			}
		}
		text, _, _ := bytes.Cut(name[:], []byte{0})
		v.Name, v.Memory = string(text), int64(bytesOf)
		v.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	}
	return list, nil
}

// Context is the use of one device by this process. All that use the same device share its memory space.
type Context struct {
	Device Device
	driver *Driver
	handle uintptr
}

// Use begins the use of the device with that UUID, or of the first one where it is empty. Close ends it.
func (d *Driver) Use(uuid string) (*Context, error) {
	list, err := d.Devices()
	if err != nil {
		return nil, err
	}
	var seen []string
	for _, v := range list {
		if uuid == "" || bare(v.UUID) == bare(uuid) {
			c := &Context{Device: v, driver: d}
			return c, d.check("cuDevicePrimaryCtxRetain", d.retain(&c.handle, v.handle))
		}
		seen = append(seen, v.UUID)
	}
	return nil, fmt.Errorf("%w %s: this process sees %v: CUDA_VISIBLE_DEVICES must name it", ErrNoDevice, uuid, seen)
}

// bare is the UUID without the word before it.
func bare(uuid string) string { return strings.TrimPrefix(strings.TrimPrefix(uuid, "GPU-"), "MIG-") }

// Close ends the use of the device. What was allocated there must be freed before.
func (c *Context) Close() error {
	return c.driver.check("cuDevicePrimaryCtxRelease", c.driver.release(c.Device.handle))
}

// Do runs f on a thread whose context this is.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.driver.check("cuCtxSetCurrent", c.driver.setCurrent(c.handle)); err != nil {
		return err
	}
	defer c.driver.setCurrent(0) // the thread is another goroutine's next
	return f()
}
