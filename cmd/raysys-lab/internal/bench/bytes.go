package bench

import (
	"fmt"
	"sync/atomic"
)

// The sizes that the rows of large objects move, unless Plan.Size gives another.
const (
	gigabyte  = 1 << 30
	putBytes  = 800_000_000 // Ray's row puts as much
	broadcast = 256 << 20
	bulkBytes = 256 << 20
)

func (p Plan) size(usual int64) int {
	if p.Size > 0 {
		return int(p.Size)
	}
	return int(usual)
}

// pattern is n bytes that are not all alike. Every page of it has been written.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range min(n, 1<<20) {
		b[i] = byte(i>>8)*31 + byte(i)*7 + 1
	}
	for filled := min(n, 1<<20); filled < n; {
		filled += copy(b[filled:], b[:filled])
	}
	return b
}

// page is the least that memory is mapped in.
const page = 4 << 10

// touch reads a byte of every page.
func touch(b []byte) (sum int64) {
	for i := 0; i < len(b); i += page {
		sum += int64(b[i])
	}
	return sum
}

// touched keeps the compiler from leaving touch out.
var touched atomic.Int64

// gb is a rate in 10^9 bytes per second.
func gb(bytes int, seconds float64) float64 { return float64(bytes) / 1e9 / seconds }

// GigabytesPerSecond is the unit of rates of bytes.
const GigabytesPerSecond Unit = "GB/s"

// sized is for details.
func sized(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
