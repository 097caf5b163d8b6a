package system

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// The frames of the search for cycles. Numbers are unsigned varints.
//
//	KindProbe   slot kind node incarnation number, then [id count chain] to have that call give way
//	KindProbed  slot gave, then waits until the end
//	  wait      flags, then where a far one is: node incarnation kind node incarnation number
//	                   or id name need free count places

// probeLimit is how long a node may take to answer: then what it was asked about is taken to go on.
const probeLimit = 2 * time.Second

const (
	waitHeld = 1 << iota
	waitFar
)

// probeAnswer is a KindProbed.
type probeAnswer struct {
	gave  bool
	waits []raysys.Waiting
	fars  []far
}

// ask returns what f waits for, by the word of the node that computes it; nothing when it can go on, or nobody knows.
func (c *cluster) ask(f far) ([]raysys.Waiting, []far) {
	if f.at == c.self() {
		return c.waitsOf(f)
	}
	a := c.probeAt(f, nil)
	return a.waits, a.fars
}

// askBreak has a call give way that was found by way of f.
func (c *cluster) askBreak(f far, id raysys.TaskID, chain []string) bool {
	if f.at == c.self() {
		return c.breakHere(f, id, chain)
	}
	more := wire.AppendUvarint(wire.AppendID(nil, id), uint64(len(chain)))
	for _, name := range chain {
		more = wire.AppendBytes(more, name)
	}
	return c.probeAt(f, more).gave
}

func (c *cluster) probeAt(f far, more []byte) (a probeAnswer) {
	p := c.peer(f.at)
	if p == nil {
		return a
	}
	answer := make(chan probeAnswer, 1) // never closed
	slot, ok := p.probes.Put(answer)
	if !ok {
		return a
	}
	frame := append(wire.AppendUvarint(nil, slot), byte(f.kind))
	frame = wire.AppendUvarint(appendNode(frame, f.from), f.number)
	if err := p.Send(wire.Requests, wire.KindProbe, append(frame, more...)); err != nil {
		p.probes.Take(slot)
		return a
	}
	p.Flush()
	limit := time.NewTimer(probeLimit)
	defer limit.Stop()
	select {
	case a = <-answer:
	case <-limit.C:
		p.probes.Take(slot)
	case <-c.ctx.Done():
		p.probes.Take(slot)
	}
	return a
}

// onProbe handles KindProbe.
func (p *peer) onProbe(frame []byte) error {
	r := wire.NewReader(frame)
	slot := r.Uvarint()
	f := far{at: p.c.self(), kind: farKind(r.Byte()), from: readNode(&r), number: r.Uvarint()}
	if err := r.Err(); err != nil {
		return err
	}
	out := wire.AppendUvarint(nil, slot)
	if r.Len() == 0 {
		waits, fars := p.c.waitsOf(f)
		_ = p.reply(wire.KindProbed, appendWaits(append(out, 0), waits, fars)) // who is gone needs no answer
		return nil
	}
	id := r.ID()
	chain := make([]string, r.Count(1))
	for i := range chain {
		chain[i] = r.String()
	}
	if err := r.Err(); err != nil {
		return err
	}
	gave := byte(0)
	if p.c.breakHere(f, id, chain) {
		gave = 1
	}
	_ = p.reply(wire.KindProbed, append(out, gave))
	return nil
}

// onProbed handles KindProbed.
func (p *peer) onProbed(frame []byte) error {
	r := wire.NewReader(frame)
	slot := r.Uvarint()
	a := probeAnswer{gave: r.Byte() == 1}
	if err := r.Err(); err != nil {
		return err
	}
	for r.Len() > 0 {
		w, f := readWait(&r)
		a.waits, a.fars = append(a.waits, w), append(a.fars, f)
	}
	for _, w := range a.waits {
		for _, on := range w.On {
			if on >= len(a.waits) {
				return wire.ErrCorrupt
			}
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	if answer, ok := p.probes.Take(slot); ok {
		answer <- a
	}
	return nil
}

// appendWaits appends nothing when there are too many: then the first is taken to go on.
func appendWaits(dst []byte, waits []raysys.Waiting, fars []far) []byte {
	if len(waits) > maxProbed {
		return dst
	}
	for i := range waits {
		w := &waits[i]
		if w.Far {
			f := fars[i]
			dst = append(appendNode(append(dst, waitFar), f.at), byte(f.kind))
			dst = wire.AppendUvarint(appendNode(dst, f.from), f.number)
			continue
		}
		flags := byte(0)
		if w.Held {
			flags = waitHeld
		}
		dst = wire.AppendBytes(wire.AppendID(append(dst, flags), w.ID), w.Name)
		dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(w.Need)), uint64(w.Free))
		dst = wire.AppendUvarint(dst, uint64(len(w.On)))
		for _, on := range w.On {
			dst = wire.AppendUvarint(dst, uint64(on))
		}
	}
	return dst
}

func readWait(r *wire.Reader) (w raysys.Waiting, f far) {
	flags := r.Byte()
	if flags&waitFar != 0 {
		w.Far, w.Need = true, 1
		f = far{at: readNode(r), kind: farKind(r.Byte()), from: readNode(r), number: r.Uvarint()}
		return w, f
	}
	w.Held, w.ID, w.Name = flags&waitHeld != 0, r.ID(), r.String()
	w.Need, w.Free = int(r.Uint32()), int(r.Uint32())
	for range r.Count(1) {
		w.On = append(w.On, int(r.Uint32()))
	}
	return w, f
}
