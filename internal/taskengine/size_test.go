package taskengine

import (
	"testing"
	"unsafe"
)

// TestRecordIsSmall: a task of an int is one allocation of a size class.
func TestRecordIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(recordOf[int, int]{}); n > 96 {
		t.Errorf("the record of a task of an int has %d bytes, want 96 at most", n)
	}
}
