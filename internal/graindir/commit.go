package graindir

import (
	"encoding/binary"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// What is stored of a durable grain beside its States, which are stored as those of any grain: a Counter, and a reply
// for each call that may be made again.

// Counter names the last commit of a durable grain: how many turns had been committed by then, and a number drawn for
// that commit, by which its activation recognises it.
type Counter struct{ Turn, Nonce uint64 }

// Append appends the counter to a record or a frame; ReadCounter reads it.
func (c Counter) Append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(wire.AppendUvarint(dst, c.Turn), c.Nonce)
}

// ReadCounter reads what Append wrote.
func ReadCounter(r *wire.Reader) Counter { return Counter{r.Uvarint(), r.Uint64()} }

// Commit is what turns of a durable grain changed, with their replies.
type Commit struct {
	After   ETag // the version of the counter that these turns follow
	Counter Counter
	States  []StateChange
	Replies []StoredReply
	Forget  []raysys.TaskID // calls whose replies nobody can ask for any more; removed before Replies are put
	Sides   []Side          // each name once
}

// Side is a record of a durable grain beside its States, counter and replies.
type Side struct {
	Family byte   // what the record is: one of the constants below
	Name   string // of the record among those of its grain and family; any bytes
	Data   []byte // in a Commit nil removes the record
}

// The families of Side records. The letters are stored and never change.
const (
	SideOutbox  = 'e' // messages that are to be sent
	SideFloors  = 'f' // up to where messages of others were taken, by sender
	SideKeys    = 'k' // blocks of keys of calls
	SideEntries = 'm' // entries of a grains.Map
)

// Families are those of all Side records, in order.
const Families = "efkm"

// StateChange is a State as a turn left it; nil Data removes what is stored.
type StateChange struct {
	Name string
	Data []byte
}

// StoredReply is the record of the outcome of one call.
type StoredReply struct {
	Call raysys.TaskID
	Data []byte
}

// Restored is what is stored of a durable grain.
type Restored struct {
	States  []Record
	Version ETag // of the counter
	Counter Counter
	Replies []StoredReply
	Sides   []Side // family by family, in the order of their names
}

// The families of the other records of a durable grain, as a Page has them.
const (
	StoredCounter = 'd'
	StoredState   = 's'
	StoredCounts  = 'n' // of a Listed page alone: how many keys and messages there are
)

// Query asks for what is stored of the grains of a durable kind that lie in one shard, in the order of their keys.
type Query struct {
	Shard  int
	Kind   string
	States []string // their names; others are left out
	Prefix string   // of the grains' keys
	From   Stored   // the last record of the page before; zero for the first page
	// Listed asks for what there is and not for what it says, for an operator: States of any name, and all entries of
	// one field of a Map together, each with a Tally in place of its data. A grain is in one page: From is a Key.
	Listed    bool
	Namespace string // of the program; "" for that of the node
}

// Tally is the data of a record of a Listed page: of a StoredCounts N keys and Size messages, else N records of Size
// bytes.
type Tally struct{ N, Size uint64 }

// Append appends the tally; ReadTally reads it, and is zero for what is none.
func (t Tally) Append(dst []byte) []byte {
	return wire.AppendUvarint(wire.AppendUvarint(dst, t.N), t.Size)
}

// ReadTally reads what Append wrote.
func ReadTally(data []byte) Tally {
	r := wire.NewReader(data)
	return Tally{r.Uvarint(), r.Uvarint()}
}

// Stored is a record of a grain: its counter, which comes first, a State, or an entry of a Map.
type Stored struct {
	Side
	Key     string  // of the grain
	Counter Counter // of a StoredCounter
	Bad     error   // why that cannot be read
}

// Page is as many records as an answer has room for.
type Page struct {
	Records []Stored
	More    bool
}
