package refs

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// pendingExports implements wire.PendingExports. The peer is counted as a holder of each future when the reference is
// appended; the count is taken back when the frame is not sent, or is encoded in another form.
type pendingExports struct {
	*Session
	numbers []uint64 // in the exports
}

// PendingExports implements wire.Exporter.
func (p *Session) PendingExports() wire.PendingExports { return &pendingExports{Session: p} }

// AppendRef implements wire.References.
func (x *pendingExports) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return x.Session.appendRef(dst, c, x)
}

// AppendObject implements wire.References.
func (x *pendingExports) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	return x.Session.appendExport(dst, c, x)
}

// Mark implements wire.PendingExports.
func (x *pendingExports) Mark() int { return len(x.numbers) }

// Sent implements wire.PendingExports.
func (x *pendingExports) Sent(from, to int) {
	x.numbers = append(x.numbers[:from], x.numbers[to:]...)
	if len(x.numbers) == 0 && cap(x.numbers) > maxPending {
		x.numbers = nil
	}
}

// TakeBack implements wire.PendingExports.
func (x *pendingExports) TakeBack(from, to int) {
	for _, n := range x.numbers[from:to] {
		x.refs.exports.takeBack(n, x.Key(), x.Session)
	}
	x.Sent(from, to)
}

// maxPending bounds what is kept for the next frame.
const maxPending = 1024

// Export counts the peer as a holder of a future of this node once more, and returns the number of the export.
func (p *Session) Export(c *core.Future) (number uint64, err error) {
	return p.refs.exports.add(c, p.Key(), p)
}
