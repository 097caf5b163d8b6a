package system

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// lending implements wire.Lending: the peer counts as a holder of what it appends at once, and not any more when the frame
// was refused, or given up for another form.
type lending struct {
	*session
	numbers []uint64 // in the exports
}

// Lending implements wire.Lender.
func (p *session) Lending() wire.Lending { return &lending{session: p} }

// AppendRef implements wire.References.
func (l *lending) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return l.session.appendRef(dst, c, l)
}

// AppendObject implements wire.References.
func (l *lending) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	dst, n, err := l.session.appendLoan(dst, c)
	if n != 0 {
		l.numbers = append(l.numbers, n)
	}
	return dst, err
}

// Mark implements wire.Lending.
func (l *lending) Mark() int { return len(l.numbers) }

// Sent implements wire.Lending.
func (l *lending) Sent(from, to int) {
	l.numbers = append(l.numbers[:from], l.numbers[to:]...)
	if len(l.numbers) == 0 && cap(l.numbers) > maxNoted {
		l.numbers = nil
	}
}

// TakeBack implements wire.Lending.
func (l *lending) TakeBack(from, to int) {
	for _, n := range l.numbers[from:to] {
		l.refs.exports.takeBack(n, l.session)
	}
	l.Sent(from, to)
}

// maxNoted bounds what is kept for the next frame.
const maxNoted = 1024
