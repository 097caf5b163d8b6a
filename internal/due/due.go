package due

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Prefix begins the keys of the records.
const Prefix = "r/"

// Name says which record is meant.
type Name struct{ Namespace, Name string }

// Key is the key of the record.
func (n Name) Key() string { return Prefix + n.Namespace + "\x00" + n.Name }

// NameOf is the name of a record with that key.
func NameOf(key string) (n Name) {
	n.Namespace, n.Name, _ = strings.Cut(strings.TrimPrefix(key, Prefix), "\x00")
	return n
}

// Record is what is stored under a name.
type Record struct {
	Due      int64        // in nanoseconds of Unix time; 0: at no time
	At       core.NodeKey // the node that works at it, as far as that is stored; zero: none
	Function string       // that a worker must have, as placement names it
	Data     []byte       // of package schedule
}

// recordVersion is the first byte of a record.
const recordVersion = 1

// Append appends the record as it is stored and sent.
func (r *Record) Append(dst []byte) []byte {
	dst = wire.AppendUvarint(append(dst, recordVersion), uint64(r.Due))
	return wire.AppendBytes(wire.AppendBytes(wire.AppendNode(dst, r.At), r.Function), r.Data)
}

// Read reads what Append wrote.
func Read(r *wire.Reader) (rec Record, err error) {
	if v := r.Byte(); v != recordVersion && r.Err() == nil {
		return rec, fmt.Errorf("record of a schedule: version %d is unknown here: upgrade this node", v)
	}
	rec = Record{Due: int64(r.Uvarint()), At: wire.ReadNode(r), Function: r.String()}
	rec.Data = append([]byte{}, r.Bytes()...)
	return rec, r.Err()
}

// low is a time of day below which the record is given to a worker, though it is not due: it was stored by a clock that was ahead. 0: none is.
// It stands where Data begins, which is JSON: nodes of a version before pass over it there, and would close the connection for a longer record.
func (r *Record) low() (low int64) {
	if rest, ok := bytes.CutPrefix(r.Data, []byte(`{"Low":`)); ok {
		low, _ = strconv.ParseInt(string(rest[:max(bytes.IndexAny(rest, ",}"), 0)]), 10, 64)
	}
	return low
}

// equal reports whether two records are one.
func (r *Record) equal(o *Record) bool {
	return r.Due == o.Due && r.At == o.At && r.Function == o.Function && bytes.Equal(r.Data, o.Data)
}

// Version is that of a record in its shard; zero: there is none.
type Version struct{ Epoch, Seq uint64 }

// Item is a record with its name and version.
type Item struct {
	Name
	Version Version
	Record  Record
	// Why says why a record whose time has come stays with its leader. It is in answers.
	Why string
	// Died counts, of what is due, the nodes in a row that had it and died within a minute.
	Died uint8
	// Now is the leader's time of day when it sent this, in nanoseconds of Unix time. It stands behind the items of a frame; from a leader of a
	// version before it is that of the node which has received it.
	Now int64
}

// Deleted reports whether a leader tells a worker that the record which has the item's version is gone.
func (i *Item) Deleted() bool { return len(i.Record.Data) == 0 }

// Exists reports whether there is such a record.
func (i *Item) Exists() bool { return i.Version != Version{} }

// Append appends the item to a frame.
func (i *Item) Append(dst []byte) []byte {
	dst = wire.AppendStamp(wire.AppendBytes(wire.AppendBytes(append(dst, i.Died), i.Namespace), i.Name.Name), i.Version)
	if dst = wire.AppendBytes(dst, i.Why); i.Exists() {
		dst = i.Record.Append(dst)
	}
	return dst
}

// Read reads what Append wrote.
func (i *Item) Read(r *wire.Reader) (err error) {
	i.Died = r.Byte()
	i.Name = Name{r.String(), r.String()}
	i.Version, i.Why = wire.ReadStamp[Version](r), r.String()
	if i.Exists() {
		i.Record, err = Read(r)
	}
	return err
}

// AppendNow appends the time of a frame's items, behind them; ReadNow reads it, and returns 0 where a version before has sent the frame.
func AppendNow(dst []byte, now int64) []byte {
	if now == 0 {
		return dst
	}
	return wire.AppendUvarint(dst, uint64(now))
}

// ReadNow reads what AppendNow wrote.
func ReadNow(r *wire.Reader) int64 {
	if r.Len() == 0 {
		return 0
	}
	return int64(r.Uvarint())
}

// Change is what becomes of a record. It is made if the record has the version Was; else the answer has the record as it is. One with Read
// and Done gives back a record that the worker cannot read: Asked says why, and the record waits for a minute.
type Change struct {
	Name
	Was    Version // zero: there is none
	Next   *Record // nil: it is removed
	Read   bool    // nothing is changed
	Done   bool    // the node that was given the record works at it no more
	Asked  string  // what an operator asked for; "" for none
	Silent bool    // the answer needs no Data
}

// Query asks for the records of one shard, in the order of their names, or the soonest first.
type Query struct {
	Shard   int
	Prefix  string // of their keys
	Named   string // how their names begin, whatever the namespace
	From    string // the key where to go on; "" for the first
	Soonest bool
	Limit   int
}

// Page answers a Query.
type Page struct {
	Items []Item
	Count int    // of those that match, with Soonest
	Next  string // the key where to go on; "" at the end
}

// Store is the registry as package schedule sees it. done is called once, on any goroutine, and must not block.
type Store interface {
	// Change makes a change, together with others. The answer has the record as it is then, and whether the change was made.
	Change(c Change, done func(now Item, made bool, err error))
	List(q Query, done func(Page, error))
	Shards() int
}

// Schedules is what package schedule registers.
type Schedules struct {
	// Take works at records that are due. The node is a *system.Node. It does not block.
	Take func(node any, list []Item)
	// Describe says what a record is: an inspect.Schedule.
	Describe func(Item) any
	// Do does what an operator asks for: "pause", "resume", "run" or "delete".
	Do func(verb string, i Item) (Change, error)
}

var hooks struct {
	mu        sync.Mutex // guards the rest
	schedules *Schedules
	store     func(node any) (Store, error)
}

// Register is called by package schedule, once.
func Register(s Schedules) {
	hooks.mu.Lock()
	defer hooks.mu.Unlock()
	hooks.schedules = &s
}

// Registered is what package schedule has registered; nil where the program has no such package.
func Registered() *Schedules {
	hooks.mu.Lock()
	defer hooks.mu.Unlock()
	return hooks.schedules
}

// RegisterStore is called by package system, once.
func RegisterStore(of func(node any) (Store, error)) {
	hooks.mu.Lock()
	defer hooks.mu.Unlock()
	hooks.store = of
}

// StoreOf returns the store of a *system.Node.
func StoreOf(node any) (Store, error) {
	hooks.mu.Lock()
	of := hooks.store
	hooks.mu.Unlock()
	return of(node)
}

// ErrNoSchedules: a leader has asked a node whose program does not have package schedule.
var ErrNoSchedules = fmt.Errorf("%w: its program does not import package schedule", raysys.ErrUnknownFunc)
