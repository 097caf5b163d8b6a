package wire

import "sync"

// largeFrames are used again, since a frame as large as this that is made for each large value keeps the collector busy.
var largeFrames = sync.Pool{New: func() any { return new([]byte) }}

// largeFrame is up to which size frames are used again, and frameStep what their sizes are multiples of.
const (
	largeFrame = PushLimit + PushLimit/8
	frameStep  = 64 << 10
)

// TakeFrame returns memory of n bytes for a large frame, with what was in it before.
func TakeFrame(n int) []byte {
	if n > largeFrame {
		return make([]byte, n)
	}
	b := largeFrames.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, (n+frameStep-1)/frameStep*frameStep)
	}
	return (*b)[:n]
}

// GiveFrame takes back memory that TakeFrame may have returned. Nothing may refer to it.
func GiveFrame(b []byte) {
	if cap(b) >= frameStep && cap(b) <= largeFrame+frameStep {
		largeFrames.Put(&b)
	}
}
