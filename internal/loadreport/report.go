package loadreport

import (
	"time"

	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// Load says how busy a node is with tasks. Nodes tell each other: with results, and whenever system sends one.
type Load struct {
	Queued   int           // its own tasks that wait to start
	Inbound  int           // tasks of other nodes that it has accepted and not answered, waiting or running
	Busy     float64       // CPUs that run its own tasks
	Free     float64       // CPUs that nothing holds
	Mean     time.Duration // how long a task has held a CPU lately; 0 while that is not known
	Draining bool          // it takes no more tasks of others
	// Bandwidth is how fast large values have come to it lately, in bytes per second; 0 while that is not known.
	Bandwidth int64
	// Rest is what is free of all but CPU, for ReadRest; "" when all of it is.
	Rest string
	// Shaped is the tasks that wait in the node's line, of it and of others, all of which Queued counts; InboundShaped those of
	// Inbound that ask for other than one CPU. They are not in the way of tasks of one CPU.
	Shaped, InboundShaped int
	// Held is the CPUs of Busy that work has which asks for other than one CPU, and that bundles have.
	Held float64
	// Line is the estimated wait of work that asks for other than one CPU and finds it taken: for what runs and waits in the node's
	// line. 0 where there is nothing.
	Line time.Duration
	// Parked is the tasks of Inbound that began, wait for others, and have given back their one CPU. What they wait for may have no node
	// yet: they are not in the way of other tasks.
	Parked int
	// Shared is the CPUs of Held that tasks have while more of that kind wait for CPUs: tasks of one CPU of another job get their part of them.
	Shared float64
	// Memory says how near the node's process is to its memory limit.
	Memory Memory
	// Balances: the node takes part in the balance of grains. Turns of its grains take GrainTime in a second, by the
	// mean of their kinds, and GrainStands of them are spread by their number.
	Balances    bool
	GrainTime   time.Duration
	GrainStands int
}

// Memory is how near a process is to its memory limit.
type Memory uint8

const (
	Roomy   Memory = iota
	Crowded        // it lets go of idle grains: work goes elsewhere where it may
	Full           // it starts no grain
)

// String is "" for Roomy.
func (m Memory) String() string { return [...]string{"", "crowded", "full"}[min(m, Full)] }

// Asks reports whether tasks of the node wait for a CPU. A node that has one free waits for something else, and tells
// of that CPU.
func (l *Load) Asks() bool { return l.Queued > l.Shaped && l.Free < 1 }

// Flags of a load. Most loads have none of these parts, and go with results.
const (
	loadDraining  = 1 << iota
	loadBandwidth // Bandwidth follows
	loadRest      // Rest follows
	loadShaped    // then all that is of work that asks for other than one CPU, and Parked
	loadCrowded
	loadFull   // and loadCrowded, or not
	loadGrains // GrainTime and GrainStands follow
)

// AppendLoad appends l with its length, so that fields may be added behind.
func AppendLoad(dst []byte, l Load) []byte {
	var b [64]byte
	body := wire.AppendUvarint(b[:0], uint64(max(l.Queued, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Inbound, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Busy*ledger.Unit, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Free*ledger.Unit, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Mean, 0)))
	flags := byte(0)
	if l.Draining {
		flags = loadDraining
	}
	if l.Bandwidth > 0 {
		flags |= loadBandwidth
	}
	if l.Rest != "" {
		flags |= loadRest
	}
	if l.Shaped > 0 || l.InboundShaped > 0 || l.Held > 0 || l.Line > 0 || l.Parked > 0 || l.Shared > 0 {
		flags |= loadShaped
	}
	switch l.Memory {
	case Crowded:
		flags |= loadCrowded
	case Full:
		flags |= loadFull
	}
	if l.Balances {
		flags |= loadGrains
	}
	body = append(body, flags)
	if flags&loadBandwidth != 0 {
		body = wire.AppendUvarint(body, uint64(l.Bandwidth))
	}
	if flags&loadRest != 0 {
		body = wire.AppendBytes(body, l.Rest)
	}
	if flags&loadShaped != 0 {
		body = wire.AppendUvarint(body, uint64(max(l.Shaped, 0)))
		body = wire.AppendUvarint(body, uint64(max(l.InboundShaped, 0)))
		body = wire.AppendUvarint(body, uint64(max(ledger.Thousandths(l.Held), 0)))
		body = wire.AppendUvarint(body, uint64(max(l.Line, 0)))
		body = wire.AppendUvarint(body, uint64(max(l.Parked, 0)))
		body = wire.AppendUvarint(body, uint64(max(ledger.Thousandths(l.Shared), 0)))
	}
	if flags&loadGrains != 0 {
		body = wire.AppendUvarint(body, uint64(max(l.GrainTime, 0)))
		body = wire.AppendUvarint(body, uint64(max(l.GrainStands, 0)))
	}
	return wire.AppendBytes(dst, body)
}

// maxCount bounds the counts and CPUs another node may claim, so that sums of them cannot overflow.
const maxCount = 1 << 40

// maxLine is the same for the wait of a line: some hundred days.
const maxLine = 1 << 53

// ReadLoad reads what AppendLoad wrote.
func ReadLoad(r *wire.Reader) (Load, error) {
	body := wire.NewReader(r.Bytes())
	l := Load{
		Queued:  int(min(body.Uvarint(), maxCount)),
		Inbound: int(min(body.Uvarint(), maxCount)),
		Busy:    float64(min(body.Uvarint(), maxCount)) / ledger.Unit,
		Free:    float64(min(body.Uvarint(), maxCount)) / ledger.Unit,
		Mean:    time.Duration(min(body.Uvarint(), uint64(time.Hour))),
	}
	flags := body.Byte()
	l.Draining = flags&loadDraining != 0
	switch {
	case flags&loadFull != 0:
		l.Memory = Full
	case flags&loadCrowded != 0:
		l.Memory = Crowded
	}
	if flags&loadBandwidth != 0 {
		l.Bandwidth = int64(min(body.Uvarint(), maxCount))
	}
	if flags&loadRest != 0 {
		l.Rest = body.String()
		if _, err := ReadRest(l.Rest); err != nil {
			return Load{}, err
		}
	}
	if flags&loadShaped != 0 {
		l.Shaped = int(min(body.Uvarint(), uint64(l.Queued)))
		l.InboundShaped = int(min(body.Uvarint(), uint64(l.Inbound)))
		l.Held = float64(min(body.Uvarint(), maxCount)) / ledger.Unit
		l.Line = time.Duration(min(body.Uvarint(), maxLine))
		l.Parked = int(min(body.Uvarint(), uint64(l.Inbound-l.InboundShaped)))
		l.Shared = min(float64(min(body.Uvarint(), maxCount))/ledger.Unit, l.Held)
	}
	if flags&loadGrains != 0 {
		l.Balances = true
		l.GrainTime = time.Duration(min(body.Uvarint(), maxLine))
		l.GrainStands = int(min(body.Uvarint(), maxCount))
	}
	if err := r.Err(); err != nil {
		return Load{}, err
	}
	return l, body.Err()
}

// Received is how many tasks of a node a report counts: of those that hold more than one CPU, and of those that may be in any bundle.
type Received struct{ Tasks, Roaming uint64 }

// Append appends a KindLoad frame for a peer of which l and rooms count so many tasks.
func Append(dst []byte, l Load, rooms string, received Received) []byte {
	dst = wire.AppendUvarint(AppendLoad(dst, l), received.Tasks)
	return wire.AppendUvarint(wire.AppendBytes(dst, rooms), received.Roaming)
}

// Read reads what Append wrote. rooms is for ReadRooms.
func Read(r *wire.Reader) (l Load, rooms string, received Received, err error) {
	if l, err = ReadLoad(r); err != nil {
		return l, "", received, err
	}
	received.Tasks = r.Uvarint()
	rooms, received.Roaming = r.String(), r.Uvarint()
	return l, rooms, received, r.Err()
}
