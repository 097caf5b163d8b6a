package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Options are how one submission differs from the default; With on a task or a method fills them.
type Options struct {
	Resources Resources // of a task; the default is one CPU
	Sized     bool      // Resources were given
	Retried   bool      // Retries, RetryIf or Backoff were given
	Retries   int       // further attempts after the first, for errors RetryIf accepts
	RetryIf   func(error) bool
	BackoffLo time.Duration // pause before the first retry; doubles, with jitter, up to BackoffHi
	BackoffHi time.Duration
	Deadline  time.Duration // from submission; 0 leaves the default (tasks none, grain calls 30 s)
	NoLimit   bool          // no deadline at all
	Detached  bool
	Name      string            // of a detached task; "" without
	Key       string            // of a call of a durable grain
	FirstMade int64             `json:",omitempty"` // of one with a Key: milliseconds since 1970
	Strategy  string            // "" leaves the default, Balanced
	Labels    map[string]string // a node must have them all
	// Conditions are the nodes where it must be, or must not be, and which it prefers; beside Labels.
	Conditions []Condition
	Waits      bool   // for a node that has what no node has yet
	Class      Class  // of a task; counts where Classed
	Classed    bool   // Class was given; else it is that of the turn that submits
	Bundle     Bundle // what the resources are taken from; zero for the node
	Err        error  // the first option that cannot be meant
}

// Option is raysys.Option: it changes one submission.
type Option func(*Options)

// NewOptions applies opts to the defaults.
func NewOptions[O ~func(*Options)](opts []O) Options {
	return With(Options{
		Resources: Resources{CPU: 1}, Retries: 3,
		BackoffLo: 10 * time.Millisecond, BackoffHi: time.Second,
	}, opts)
}

// With applies opts to a copy of o: what they do not name stays.
func With[O ~func(*Options)](o Options, opts []O) Options {
	for _, f := range opts {
		if f == nil {
			o.Fail(fmt.Errorf("%w: nil Option", ErrBadOption))
			continue
		}
		f(&o)
	}
	if err := errors.Join(o.Resources.ValidateWanted(), o.Resources.Meant()); err != nil {
		o.Fail(err)
	}
	return o
}

// Fail records the error of an option; the first counts.
func (o *Options) Fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

// Pause returns the wait before the attempt that follows attempt number n (1 is the first), for a draw r in [0,1).
func (o *Options) Pause(n int, r float64) time.Duration {
	d := float64(o.BackoffLo) * math.Pow(2, float64(min(n-1, 40)))
	d = min(d, float64(o.BackoffHi))
	return time.Duration(d * (1 - r/2))
}

// FiringKey begins the Key of a firing: package schedule appends the schedule's name, a space and the due time.
const FiringKey = "schedule "

// Packed is a task or a call of a grain as data, which is made later, and maybe by another node: see Pack of the engines.
type Packed struct {
	Function string // of the entry
	Opts     Options
	ReadOnly bool // as the handle declares it
	Again    bool // the handle is Idempotent
	Comes    bool // and Reentrant
	Keyed    bool // a Key may be given: each call is a transaction
	Arg      []byte
}

// portable are options as data. What cannot travel hides that of Options.
type portable struct {
	Options
	RetryIf, Err *struct{} `json:",omitempty"`
}

// PackOptions returns options as data, nil for the defaults. It fails for those that mean something in this process
// alone.
func PackOptions(o *Options) (data []byte, err error) {
	switch usual := NewOptions[Option](nil); {
	case reflect.DeepEqual(usual, *o):
		return nil, nil
	case o.RetryIf != nil:
		return nil, errors.New("RetryIf is a function of this process: leave it out")
	case slices.ContainsFunc(o.Conditions, func(c Condition) bool { return c.Value != nil }):
		return nil, errors.New("raysys.Near of a value: the reference ends with its owner: give a grain, a label or nodes")
	}
	if data, err = json.Marshal(portable{Options: *o}); err != nil {
		return nil, err
	}
	if back, err := UnpackOptions(data); err != nil || !reflect.DeepEqual(back, *o) {
		return nil, errors.New("labels, and keys of grains in Near, are stored as JSON, " +
			"which holds no bytes that are not UTF-8")
	}
	return data, nil
}

// UnpackOptions reads what PackOptions has returned.
func UnpackOptions(data []byte) (Options, error) {
	o := portable{Options: NewOptions[Option](nil)}
	if data == nil {
		return o.Options, nil
	}
	err := json.Unmarshal(data, &o)
	return o.Options, err
}

// Condition says on which nodes work is to be, as a program gives it: nodes with a label, nodes by name, or those where a value is or
// a grain is active. The latter two become names of nodes when the work is placed.
type Condition struct {
	NodeCondition
	Value *Future   // nil for none
	Grain GrainName // zero for none
}

// GrainName names a grain within its namespace.
type GrainName struct{ Kind, Key string }

func (n GrainName) String() string { return n.Kind + "/" + n.Key }

// NodeCondition is a Condition of which it is known what nodes are meant.
type NodeCondition struct {
	Label  string   // of the node; "" for the nodes named
	Values []string // one of which the label has; any where there are none
	Nodes  []NodeID // without a Label: the nodes
	Not    bool     // all other nodes
	Soft   bool     // a preference
	About  string   // what the Nodes have, for messages; "" where the program named them
}

// ErrBesideBundle is why work has no conditions in a placement group.
var ErrBesideBundle = fmt.Errorf(
	"%w: OnNode, Near, Not, Prefer and Label stand beside no bundle of a placement group, which decides on the node: give one or the other",
	ErrBadOption)

// ErrCapturesAlone is why work outside a placement group captures nothing.
var ErrCapturesAlone = fmt.Errorf(
	"%w: CaptureChildren stands beside Group.Bundle or Group.AnyBundle: what work outside a group submits is its own affair", ErrBadOption)

// Conditional reports whether the options say on which nodes the work is to be.
func (o *Options) Conditional() bool { return len(o.Labels) > 0 || len(o.Conditions) > 0 }

// Want adds a condition. Of hard ones on the same label, or on names of nodes, the last counts.
func (o *Options) Want(c Condition) {
	o.Unwant(c)
	o.Conditions = append(slices.Clip(o.Conditions), c)
}

// Unwant removes the condition which c replaces.
func (o *Options) Unwant(c Condition) {
	if len(o.Conditions) == 0 {
		return
	}
	label, replaces := c.replaces()
	kept := make([]Condition, 0, len(o.Conditions)) // a new list: an Option kept and used again shares nothing
	for _, old := range o.Conditions {
		if at, ok := old.replaces(); !replaces || !ok || at != label {
			kept = append(kept, old)
		}
	}
	o.Conditions = kept
}

// replaces reports whether c is one of which there is but one: on the label, or, where that is "", on names of nodes.
func (c *Condition) replaces() (label string, ok bool) {
	return c.Label, !c.Not && !c.Soft && c.Value == nil && c.Grain == GrainName{}
}

// Named returns what only gives conditions has asked for, and false where it asked for other things, or for nothing.
func (o *Options) Named() (list []Condition, ok bool) {
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		list = append(list, Condition{NodeCondition: NodeCondition{Label: key, Values: []string{o.Labels[key]}}})
	}
	list = append(list, o.Conditions...)
	rest := *o
	rest.Labels, rest.Conditions = nil, nil
	return list, len(list) > 0 && reflect.DeepEqual(rest, Options{})
}

// Class is raysys.Class; the two number the classes alike.
type Class int8

// The classes, from that which begins last.
const (
	Low    Class = -1
	Normal Class = 0
	High   Class = 1
)

// AgeStep is how long work waits before it rises by a class: longer than most queues are, and short enough for Low work that
// somebody waits for. raysys.Class says it.
const AgeStep = 10 * time.Second

// Risen is the class of work that has waited so long.
func (c Class) Risen(waited time.Duration) Class {
	return min(c+Class(min(max(waited/AgeStep, 0), 2)), High)
}

// Code is the class as a small number for the wire: 0 is Normal.
func (c Class) Code() uint64 { return uint64(c+3) % 3 }

// ClassOf is the class of a Code; Normal for a number that no class has.
func ClassOf(code uint64) Class {
	switch code {
	case High.Code():
		return High
	case Low.Code():
		return Low
	}
	return Normal
}

// Bundle says out of which bundle of a placement group work takes what it asks for. The zero Bundle is none.
type Bundle struct {
	Group    string // the key of the group's record
	Index    int    // AnyBundle: each that has what is asked for
	Captures bool   // what the work submits is in the group too, unless it says otherwise
}

// AnyBundle is the Index for work that may be in each bundle of its group.
const AnyBundle = -1

// Children is the bundle of what work in b submits; nil where that is its own affair.
func (b Bundle) Children() *Bundle {
	if !b.Captures {
		return nil
	}
	b.Index = AnyBundle
	return &b
}

// CPUPool is what work in a bundle has its CPU from.
type CPUPool interface {
	// GiveCPU returns n thousandths; RetakeCPU takes them again, also where that leaves less than none.
	GiveCPU(n int64)
	RetakeCPU(n int64)
}

// Resources are raysys.Resources, which documents them.
type Resources struct {
	CPU       float64
	GPU       float64
	GPUMemory int64
	GPUModel  string
	Memory    int64
	Custom    map[string]float64
}

// maxAmount bounds what is counted, so that sums of thousandths cannot overflow.
const maxAmount = 1e9

// maxMemory bounds memory, in bytes: a hundred times what the largest machines have, and a number that a float64 holds.
const maxMemory = 1 << 53

// Validate reports the first amount that cannot be meant: negative, NaN, infinite, beyond a billion, or 8 PiB of memory, or below
// 1/1000. What a program says is to be Meant, too; what was computed, stored or sent need not be.
func (r Resources) Validate() error {
	check := func(name string, v float64) error {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("%w: %s is %v: give a finite number", ErrBadOption, name, v)
		case v < 0:
			return fmt.Errorf("%w: %s is %v: resources cannot be negative", ErrBadOption, name, v)
		case v > maxAmount:
			return fmt.Errorf("%w: %s is %v: no node has more than %v", ErrBadOption, name, v, float64(maxAmount))
		case v > 0 && v < 0.001:
			return fmt.Errorf("%w: %s is %v: the smallest share is 0.001", ErrBadOption, name, v)
		}
		return nil
	}
	if err := check("CPU", r.CPU); err != nil {
		return err
	}
	if err := check("GPU", r.GPU); err != nil {
		return err
	}
	for _, m := range []struct {
		name  string
		bytes int64
	}{{"Memory", r.Memory}, {"GPUMemory", r.GPUMemory}} {
		if m.bytes < 0 {
			return fmt.Errorf("%w: %s is %d: resources cannot be negative", ErrBadOption, m.name, m.bytes)
		}
		if m.bytes > maxMemory {
			return fmt.Errorf("%w: %s is %s: no node has more than %s", ErrBadOption, m.name, Bytes(m.bytes), Bytes(maxMemory))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		if k == "" {
			return fmt.Errorf("%w: a custom resource needs a name", ErrBadOption)
		}
		if err := check(k, r.Custom[k]); err != nil {
			return err
		}
	}
	return nil
}

// Meant reports what a program cannot mean, though Validate lets it pass: amounts that are no multiple of 1/1000, within what sums of
// such amounts are off, which would be rounded; and a custom resource under the name of one that is none.
func (r Resources) Meant() error {
	check := func(name string, v float64) error {
		if n := v * 1000; n >= 1 && math.Abs(n-math.Round(n)) > 1e-6+n*1e-14 {
			return fmt.Errorf("%w: %s is %v: amounts are counted in thousandths: give %v", ErrBadOption, name, v, math.Round(n)/1000)
		}
		return nil
	}
	err := errors.Join(check("CPU", r.CPU), check("GPU", r.GPU))
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		err = errors.Join(err, check(k, r.Custom[k]))
		if own, taken := ownNames[strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(k))]; taken {
			err = errors.Join(err, fmt.Errorf("%w: %q is no custom resource: give raysys.%s, or system.Config.Resources.%s, or --%s", ErrBadOption, k, own.field, own.field, own.flag))
		}
	}
	return err
}

// ownNames are the resources that are not custom, by their names in small letters.
var ownNames = map[string]struct{ field, flag string }{
	"cpu": {"CPU", "cpu"}, "gpu": {"GPU", "gpu"}, "gpumemory": {"GPUMemory", "gpu-memory"}, "gpumodel": {"GPUModel", "gpu-model"}, "memory": {"Memory", "memory"},
}

// ValidateWanted is Validate for what work asks for: devices are whole, or a share of one.
func (r Resources) ValidateWanted() error {
	if err := r.Validate(); err != nil {
		return err
	}
	if r.GPU > 1 && r.GPU != math.Trunc(r.GPU) {
		return fmt.Errorf("%w: GPU is %v: give a share of one device, below 1, or a number of whole devices", ErrBadOption, r.GPU)
	}
	if r.GPU == 0 && (r.GPUMemory != 0 || r.GPUModel != "") {
		return fmt.Errorf("%w: %v says which devices, and GPU how many: give GPU too", ErrBadOption, Resources{GPUMemory: r.GPUMemory, GPUModel: r.GPUModel})
	}
	return nil
}

// String lists what is not zero, bytes to four digits: other amounts may have the same text.
func (r Resources) String() string {
	var s []string
	add := func(name string, v float64) {
		if v != 0 {
			s = append(s, fmt.Sprintf("%s %g", name, v))
		}
	}
	add("CPU", r.CPU)
	add("GPU", r.GPU)
	if r.GPUModel != "" {
		s = append(s, fmt.Sprintf("GPUModel %q", r.GPUModel))
	}
	if r.GPUMemory != 0 {
		s = append(s, "GPUMemory "+Bytes(r.GPUMemory))
	}
	if r.Memory != 0 {
		s = append(s, "Memory "+Bytes(r.Memory))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Custom)) {
		add(k, r.Custom[k])
	}
	if s == nil {
		return "nothing"
	}
	return strings.Join(s, ", ")
}

// CPUSlot stands for the CPU that a goroutine holds while it runs tasks. Tasks that run in place share the CPU slot of
// the task that waits for them. Two of them share no cache line.
type CPUSlot struct {
	Blocked atomic.Int32           // goroutines of the task that wait: the first gives the CPU back, the last takes it again
	Waited  atomic.Bool            // a task has waited on it since the engine last cleared this
	NotOwn  atomic.Bool            // the CPU does not serve this node's tasks: it runs another node's, or none just now
	Parked  atomic.Bool            // a task of another node has it, and waits
	Depth   atomic.Int32           // how many tasks run in place on the goroutine
	CPU     int64                  // what it holds, in thousandths
	Pool    CPUPool                // what that is of; nil for the node
	Within  *Bundle                // what the task that runs submits is in this group; nil for none
	Batch   atomic.Pointer[Future] // the queue entry of many tasks that it is working off
	Noted   any                    // what the engine that made it notes of its tasks; nil for the slot of a grain
	_       [48]byte
}
