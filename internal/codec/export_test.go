package codec

import (
	"testing"
)

// AsBigEndian makes the test run as on a machine where memory is not in wire order.
func AsBigEndian(t *testing.T) {
	was := littleEndian
	littleEndian = false
	t.Cleanup(func() { littleEndian = was })
}

// MaxDepth is maxDepth for tests.
const MaxDepth = maxDepth

// Schema returns the canonical description that Fingerprint is made of, for messages about two that differ.
func (p *Plan) Schema() string { return p.schema() }
