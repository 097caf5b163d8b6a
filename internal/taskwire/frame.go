package taskwire

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// The frames between the tasks of two nodes. Numbers are unsigned varints.
//
//	KindTasks       flags (0), scope, then tasks until the end
//	  task          function, sequence, flags, [attempt], [time left], [resources], [length, more], argument, slot
//	  more          flags, [memory and model of devices], [group, bundle], labels
//	KindTaskResult  flags, [load], then results until the end; one that has a body is the last
//	  result        slot, status, body
//	KindTaskCancel  slots until the end
//	KindTaskFinal   run ids until the end; after a zero id come tasks of which the sender will not say that they are final
//	  slot          index, generation
//
// A later version may put fields that it adds to a task at the end of more, where this version skips them. Any other unknown
// content is corrupt.

// maxAmount bounds the amounts that another node may claim, so that sums of them cannot overflow.
const maxAmount = 1 << 40

// Flags of a task.
const (
	taskAttempt   = 1 << iota // not the first
	taskDeadline              // the nanoseconds that are left
	taskResources             // other than one CPU
	taskMore
	taskRedraws // attempts that draw other random numbers
	taskKnown   = taskAttempt | taskDeadline | taskResources | taskMore | taskRedraws
)

// Flags of a result. Unknown ones are skipped.
const (
	ResultLoad  = 1 << iota // the sender's load comes with it
	ResultWaits             // the sender wants to know when the task, which is the first in the frame, is final
)

// Status of a result.
const (
	ResultValue     = iota // the value follows
	ResultError            // the error follows: of the task, or why it was not run
	ResultGivenBack        // the task was not begun and is given back
	ResultLost             // the node closes, and the task may have begun
	// The same as the first two for a task with effects: its value is not made again.
	ResultValueEffects
	ResultErrorEffects
)

// Head is what travels with a task beyond function, sequence and argument.
type Head struct {
	Attempt  int
	Redraws  uint32       // of a further attempt: core.Turn.Redraws
	TimeLeft int64        // nanoseconds, 0 for no deadline of its own
	Need     *ledger.Need // nil for one CPU
	Remakes  bool         // it makes a lost value again
	Classed  bool         // its class is not that of the turn that submitted it
	Class    core.Class
	Stays    bool   // it was placed by other things than room
	Labels   string // that its node must have, as AppendLabels writes them; "" for none
	Placed   bool   // its node was chosen for it: it waits there for a CPU
}

// Plain reports whether the task may begin wherever a CPU is free.
func (h *Head) Plain() bool {
	return h.Need == nil && !h.Remakes && !h.Stays && !h.Placed && h.Labels == ""
}

// The flags in more, its first byte.
const (
	moreRemakes = 1 << iota // the task makes a lost value again
	moreDevices             // the memory and the model of the devices in resources follow
	moreHigh                // the task's class, where it is not that of its turn
	moreNormal
	moreLow
	moreBundle   // then the placement group and the bundle that resources are taken from follow, the latter counted from 1; 0 for any
	moreCaptures // what the task submits is in the group too
	moreStays    // the task was placed by other things than room, and does not go where there is room
)

// The flags behind all else in more, which nodes of earlier versions do not read.
const latePlaced = 1 // Head.Placed

// classFlags are those of the classes, from core.Low.
var classFlags = [...]byte{moreLow, moreNormal, moreHigh}

// AppendTasks begins a frame of tasks of the turn that the peer knows by scope.
func AppendTasks(dst []byte, scope uint32) []byte {
	return binary.AppendUvarint(append(dst, 0), uint64(scope))
}

// AppendHeadless appends the head of a task in its first attempt of which there is no more to say.
func AppendHeadless(dst []byte, fn uint32, seq uint64) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(dst, uint64(fn)), seq), 0)
}

// AppendHead appends a task up to its argument.
func AppendHead(dst []byte, fn uint32, seq uint64, h Head) []byte {
	if h == (Head{Attempt: 1}) {
		return AppendHeadless(dst, fn, seq)
	}
	dst = binary.AppendUvarint(dst, uint64(fn))
	dst = binary.AppendUvarint(dst, seq)
	flags := byte(0)
	if h.Attempt > 1 {
		flags |= taskAttempt
	}
	if h.Redraws > 0 {
		flags |= taskRedraws
	}
	if h.TimeLeft > 0 {
		flags |= taskDeadline
	}
	if h.Need != nil {
		flags |= taskResources
	}
	model := h.Need != nil && (h.Need.GPUMemory != 0 || h.Need.GPUModel != "")
	bundle := h.Need != nil && h.Need.Bundle.Group != ""
	if h.Remakes || h.Classed || h.Stays || h.Placed || model || bundle || h.Labels != "" {
		flags |= taskMore
	}
	dst = append(dst, flags)
	if h.Attempt > 1 {
		dst = binary.AppendUvarint(dst, uint64(h.Attempt))
	}
	if h.Redraws > 0 {
		dst = binary.AppendUvarint(dst, uint64(h.Redraws))
	}
	if h.TimeLeft > 0 {
		dst = binary.AppendUvarint(dst, uint64(h.TimeLeft))
	}
	if h.Need != nil {
		dst = appendNeed(dst, *h.Need)
	}
	if flags&taskMore != 0 {
		more := []byte{0}
		if h.Remakes {
			more[0] = moreRemakes
		}
		if h.Stays {
			more[0] |= moreStays
		}
		if h.Classed {
			more[0] |= classFlags[h.Class+1]
		}
		if model {
			more[0] |= moreDevices
			more = wire.AppendBytes(binary.AppendUvarint(more, uint64(h.Need.GPUMemory)), h.Need.GPUModel)
		}
		if bundle {
			more[0] |= moreBundle
			if h.Need.Bundle.Captures {
				more[0] |= moreCaptures
			}
			more = binary.AppendUvarint(wire.AppendBytes(more, h.Need.Bundle.Group), uint64(h.Need.Bundle.Index+1))
		}
		more = wire.AppendBytes(more, h.Labels)
		if h.Placed {
			more = append(more, latePlaced)
		}
		dst = wire.AppendBytes(dst, more)
	}
	return dst
}

func appendNeed(dst []byte, n ledger.Need) []byte {
	for _, v := range []int64{n.CPU, n.GPU, n.Memory} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	dst = binary.AppendUvarint(dst, uint64(len(n.Custom)))
	for _, k := range slices.Sorted(maps.Keys(n.Custom)) {
		dst = binary.AppendUvarint(wire.AppendBytes(dst, k), uint64(n.Custom[k]))
	}
	return dst
}

// AppendSlot appends the number by which the sender of a task knows it.
func AppendSlot(dst []byte, slot uint64) []byte {
	dst = binary.AppendUvarint(dst, slot&(1<<32-1))
	return binary.AppendUvarint(dst, slot>>32)
}

// ReadSlot reads what AppendSlot wrote.
func ReadSlot(r *wire.Reader) uint64 {
	index := r.Uint32()
	return uint64(r.Uint32())<<32 | uint64(index)
}

// ReadTask reads a task up to its argument.
func ReadTask(r *wire.Reader) (fn uint32, seq uint64, h Head, err error) {
	fn, seq = r.Uint32(), r.Uvarint()
	h.Attempt = 1
	flags := r.Byte()
	if flags&^taskKnown != 0 {
		return 0, 0, h, fmt.Errorf("%w: a task with flags %#x", wire.ErrCorrupt, flags)
	}
	if flags&taskAttempt != 0 {
		h.Attempt = int(r.Uint32())
	}
	if flags&taskRedraws != 0 {
		h.Redraws = r.Uint32()
	}
	if flags&taskDeadline != 0 {
		h.TimeLeft = int64(min(r.Uvarint(), core.Far))
	}
	if flags&taskResources != 0 {
		n := readNeed(r)
		h.Need = &n
	}
	if flags&taskMore != 0 {
		more := wire.NewReader(r.Bytes())
		bits := more.Byte()
		h.Remakes, h.Stays = bits&moreRemakes != 0, bits&moreStays != 0
		for i, flag := range classFlags {
			if bits&flag != 0 {
				h.Classed, h.Class = true, core.Class(i-1)
			}
		}
		if h.Need != nil && bits&moreDevices != 0 {
			h.Need.GPUMemory, h.Need.GPUModel = int64(min(more.Uvarint(), maxAmount*1024)), more.String()
		}
		if h.Need != nil && bits&moreBundle != 0 {
			h.Need.Bundle = core.Bundle{Group: more.String(), Index: int(more.Uint32()) - 1, Captures: bits&moreCaptures != 0}
		}
		h.Labels = more.String()
		if err := more.Err(); err != nil {
			return 0, 0, h, err
		}
		h.Placed = more.Len() > 0 && more.Byte()&latePlaced != 0
	}
	return fn, seq, h, r.Err()
}

// AppendLabels appends labels, nothing where there are none.
func AppendLabels(dst []byte, labels map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		dst = wire.AppendBytes(wire.AppendBytes(dst, k), labels[k])
	}
	return dst
}

// ReadLabels reads what AppendLabels wrote, up to the first that is cut off.
func ReadLabels(b string) map[string]string {
	labels := map[string]string{}
	for r := wire.NewReader([]byte(b)); r.Len() > 0; {
		k, v := r.String(), r.String()
		if r.Err() != nil {
			break
		}
		labels[k] = v
	}
	return labels
}

func readNeed(r *wire.Reader) ledger.Need {
	amount := func() int64 { return int64(min(r.Uvarint(), maxAmount*1024)) }
	n := ledger.Need{CPU: amount(), GPU: amount(), Memory: amount()}
	for range r.Count(2) {
		k := r.String()
		if n.Custom == nil {
			n.Custom = map[string]int64{}
		}
		n.Custom[k] = amount()
	}
	return n
}
