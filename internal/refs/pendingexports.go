package refs

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// pendingExports implements wire.Lending: the peer counts as a holder of what it appends at once, and not any more when the frame
// was refused, or given up for another form.
type pendingExports struct {
	*Session
	numbers []uint64 // in the exports
}

// PendingExports implements wire.Lender.
func (p *Session) PendingExports() wire.PendingExports { return &pendingExports{Session: p} }

// AppendRef implements wire.References.
func (l *pendingExports) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return l.Session.appendRef(dst, c, l)
}

// AppendObject implements wire.References.
func (l *pendingExports) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	dst, n, err := l.Session.appendExport(dst, c)
	if n != 0 {
		l.numbers = append(l.numbers, n)
	}
	return dst, err
}

// Mark implements wire.Lending.
func (l *pendingExports) Mark() int { return len(l.numbers) }

// Sent implements wire.Lending.
func (l *pendingExports) Sent(from, to int) {
	l.numbers = append(l.numbers[:from], l.numbers[to:]...)
	if len(l.numbers) == 0 && cap(l.numbers) > maxPending {
		l.numbers = nil
	}
}

// TakeBack implements wire.Lending.
func (l *pendingExports) TakeBack(from, to int) {
	for _, n := range l.numbers[from:to] {
		l.refs.exports.takeBack(n, l.Session)
	}
	l.Sent(from, to)
}

// maxPending bounds what is kept for the next frame.
const maxPending = 1024

// Export counts the peer as a holder of a future of this node once more, and returns the number under which it may ask.
func (p *Session) Export(c *core.Future) (number uint64, err error) { return p.refs.exports.add(c, p) }
