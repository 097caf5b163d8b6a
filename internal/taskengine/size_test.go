package taskengine

import (
	"testing"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// TestRecordIsSmall: a task of an int is one allocation of a size class.
func TestRecordIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(recordOf[int, int]{}); n > 96 {
		t.Errorf("the record of a task of an int has %d bytes, want 96 at most", n)
	}
}

// TestLayout: what one goroutine writes for each task shares no cache line with what others read for each. Where it does, a task that runs
// in place takes a tenth longer.
func TestLayout(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(core.CPUSlot{}); n%line != 0 {
		t.Errorf("a CPUSlot has %d bytes, want a multiple of %d: mend the padding behind its fields", n, line)
	}
	if at := unsafe.Offsetof(Engine{}.searching); at%line != 0 {
		t.Errorf("Engine.searching begins at %d, want a multiple of %d: mend the padding before it", at, line)
	}
}
