package refs

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// exportKey names a future by the node that exports it.
type exportKey struct {
	owner  core.NodeKey
	number uint64
}

// borrow is the claim of this node, the borrower, on one future of another node, its owner. The owner counts each borrower.
// Where the reference came from a third node, the lender, the lender keeps the future alive until the owner has answered
// that it counts the borrower:
//
//	owner ── counts ──▶ lender           owner ── counts ──▶ lender, until the drop
//	                       │ passes on     ▲ counts             ▲
//	                       ▼               └ Borrow ─ borrower ─┘ Drop, once the owner has answered
//	                    borrower
//
// When the lender dies first, the owner counts it for borrowGrace more, so that a Borrow which is on its way arrives in
// time. The lock of the reference table guards the fields.
type borrow struct {
	owner   exportKey
	counted bool        // the owner counts this node, once
	asking  bool        // the owner has been asked to count this node, and has not answered
	lenders []exportKey // nodes that keep the future alive until the owner counts this node
	over    bool        // nothing here refers to it any more
}

// register asks the owner to count this node, and asks again as long as the request may have been lost.
func (r *References) register(b *borrow) {
	r.mesh.Reach(b.owner.owner, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindBorrow, func(dst []byte) []byte {
			return wire.AppendUvarint(dst, b.owner.number)
		}, func(in *wire.Reader) (byte, error) { return in.Byte(), nil }, func(counted byte, err error) {
			if mesh.Undelivered(err) || mesh.Unknown(err) { // counting twice is counting once: see exports.declared
				r.runner.Later(func() { r.register(b) })
				return
			}
			r.table.answered(b, err == nil && counted == 1)
		})
	}, func(error) { r.table.answered(b, false) })
}

// onBorrow serves KindBorrow.
func (p *Session) onBorrow(r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	counted := byte(0)
	if p.refs.exports.count(number, p.Key()) {
		counted = 1
	}
	to.Send(append(to.Head(), counted))
	return nil
}
