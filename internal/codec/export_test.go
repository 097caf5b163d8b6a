package codec

import (
	"testing"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// AsBigEndian makes the test run as on a machine where memory is not in wire order.
func AsBigEndian(t *testing.T) {
	was := littleEndian
	littleEndian = false
	t.Cleanup(func() { littleEndian = was })
}

// MaxDepth is maxDepth for tests.
const MaxDepth = maxDepth

// RefsAt is Refs for the value of the plan's type at ptr.
func (p *Plan) RefsAt(ptr unsafe.Pointer, visit func(core.RefValue)) {
	if p.root.referrer != nil {
		p.root.referrer.refs(ptr, visit)
	}
}

// Schema returns the canonical description that Fingerprint is made of, for messages about two that differ.
func (p *Plan) Schema() string { return p.schema() }
