package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Memory is float32s on a device. The zero value is none.
type Memory struct {
	at  uint64
	len int
}

// Alloc makes room for n float32s, which are not cleared.
func (c *Context) Alloc(n int) (Memory, error) {
	if n < 1 || n > 1<<40 {
		return Memory{}, fmt.Errorf("allocate %d float32s: give 1 or more", n)
	}
	m := Memory{len: n}
	if err := c.driver.check("cuMemAlloc", c.driver.alloc(&m.at, uintptr(n)*4)); err != nil {
		return Memory{}, fmt.Errorf("allocate %d bytes on %s: %w", 4*n, c.Device.UUID, err)
	}
	return m, nil
}

// Free gives back what Alloc returned.
func (c *Context) Free(m Memory) error {
	if m.len == 0 {
		return nil
	}
	return c.driver.check("cuMemFree", c.driver.free(m.at))
}

// Len is the number of float32s.
func (m Memory) Len() int { return m.len }

// Part is n float32s of m, from that one on.
func (m Memory) Part(from, n int) Memory {
	if from < 0 || n < 0 || from+n > m.len {
		panic(fmt.Sprintf("part of %d float32s from %d on, of %d", n, from, m.len))
	}
	return Memory{m.at + 4*uint64(from), n}
}

// Upload copies x to the beginning of m.
func (c *Context) Upload(m Memory, x []float32) error {
	if len(x) == 0 || len(x) > m.len {
		return fmt.Errorf("upload %d float32s to room for %d", len(x), m.len)
	}
	r := c.driver.copyTo(m.at, unsafe.Pointer(&x[0]), uintptr(len(x))*4)
	runtime.KeepAlive(x)
	return c.driver.check("cuMemcpyHtoD", r)
}

// Download copies the beginning of m to x, when all that was launched before has been carried out.
func (c *Context) Download(x []float32, m Memory) error {
	if len(x) == 0 || len(x) > m.len {
		return fmt.Errorf("download %d float32s of %d", len(x), m.len)
	}
	r := c.driver.copyFrom(unsafe.Pointer(&x[0]), m.at, uintptr(len(x))*4)
	runtime.KeepAlive(x)
	return c.driver.check("cuMemcpyDtoH", r)
}
