package waitcycles

import (
	"context"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// The frames of the search for cycles. Numbers are unsigned varints.
//
//	KindProbe   kind node incarnation number, then [id count chain] to have that call give way
//	its answer  gave, then waits until the end
//	  wait      flags, then where a far one is: node incarnation kind node incarnation number
//	                   or id name need free count places

// probeLimit is how long a node may take to answer. Work of a node that does not answer counts as work that can go on.
const probeLimit = 2 * time.Second

const (
	waitQueued = 1 << iota
	waitFar
)

// probeAnswer is the answer to a KindProbe.
type probeAnswer struct {
	gave  bool
	waits []core.Waiting
	fars  []far
}

// askComputingNode asks the node that computes f what f waits for. It returns no waits when f can go on, or the node does not
// answer.
func (pr *Prober) askComputingNode(f far) ([]core.Waiting, []far) {
	if f.at == pr.Self() {
		return pr.waitsOf(f)
	}
	a := pr.probeAt(f, nil)
	return a.waits, a.fars
}

// askBreak asks the node that computes f to have a call give way, on which f depends.
func (pr *Prober) askBreak(f far, id raysys.TaskID, chain []string) bool {
	if f.at == pr.Self() {
		return pr.breakHere(f, id, chain)
	}
	more := wire.AppendUvarint(wire.AppendID(nil, id), uint64(len(chain)))
	for _, name := range chain {
		more = wire.AppendBytes(more, name)
	}
	return pr.probeAt(f, more).gave
}

func (pr *Prober) probeAt(f far, more []byte) (a probeAnswer) {
	p := pr.Peer(f.at)
	if p == nil {
		return a
	}
	ctx, cancel := context.WithTimeout(pr.Runner.Context(), probeLimit)
	defer cancel()
	a, _ = runner.Wait(ctx, func(done func(probeAnswer, error)) { // without an answer f counts as work that can go on
		mesh.Ask(&p.Questions, wire.Requests, wire.KindProbe, func(dst []byte) []byte {
			return append(wire.AppendUvarint(wire.AppendNode(append(dst, byte(f.kind)), f.from), f.number), more...)
		}, readProbeAnswer, done)
	})
	return a
}

// Serve serves KindProbe.
func (pr *Prober) Serve(r *wire.Reader, to mesh.Reply) error {
	f := far{at: pr.Self(), kind: farKind(r.Byte()), from: wire.ReadNode(r), number: r.Uvarint()}
	if err := r.Err(); err != nil {
		return err
	}
	if r.Len() == 0 {
		waits, fars := pr.waitsOf(f)
		to.Send(appendWaits(append(to.Head(), 0), waits, fars))
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
	if pr.breakHere(f, id, chain) {
		gave = 1
	}
	to.Send(append(to.Head(), gave))
	return nil
}

func readProbeAnswer(r *wire.Reader) (probeAnswer, error) {
	a := probeAnswer{gave: r.Byte() == 1}
	for r.Len() > 0 {
		w, f := readWait(r)
		a.waits, a.fars = append(a.waits, w), append(a.fars, f)
	}
	for _, w := range a.waits {
		for _, on := range w.On {
			if on >= len(a.waits) {
				return a, wire.ErrCorrupt
			}
		}
	}
	return a, nil
}

// appendWaits appends nothing when there are too many waits: the asker then takes the work as one that can go on.
func appendWaits(dst []byte, waits []core.Waiting, fars []far) []byte {
	if len(waits) > maxProbed {
		return dst
	}
	for i := range waits {
		w := &waits[i]
		if w.Far {
			f := fars[i]
			dst = append(wire.AppendNode(append(dst, waitFar), f.at), byte(f.kind))
			dst = wire.AppendUvarint(wire.AppendNode(dst, f.from), f.number)
			continue
		}
		flags := byte(0)
		if w.Queued {
			flags = waitQueued
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

func readWait(r *wire.Reader) (w core.Waiting, f far) {
	flags := r.Byte()
	if flags&waitFar != 0 {
		w.Far, w.Need = true, 1
		f = far{at: wire.ReadNode(r), kind: farKind(r.Byte()), from: wire.ReadNode(r), number: r.Uvarint()}
		return w, f
	}
	w.Queued, w.ID, w.Name = flags&waitQueued != 0, r.ID(), r.String()
	w.Need, w.Free = int(r.Uint32()), int(r.Uint32())
	for range r.Count(1) {
		w.On = append(w.On, int(r.Uint32()))
	}
	return w, f
}
