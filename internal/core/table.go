package core

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"
)

// Entry is one line of a function table: a task, or a grain kind with its methods.
type Entry struct {
	Kind        string // "task", "grain" or "method"
	Name        string // namespace-free; a method's is kind.method
	Fingerprint uint64 // of the argument and result types (rule C4)
	Site        string // file:line of the Define call
	Table       *Table
	// Impl is what the engine that runs the function keeps with it; set by Define, before the table is frozen.
	Impl any
	bad  bool // it is not in Table
}

// String names the entry for messages.
func (e *Entry) String() string { return e.Kind + " " + e.Name }

// Table is a set of functions that may be called. The process has one, filled by Define and frozen by the first
// system.New; tests make their own for DefineIn.
type Table struct {
	mu      sync.Mutex // guards the rest
	entries map[string]*Entry
	order   []*Entry
	bad     []error
	frozen  bool
}

// DefaultTable is the process-wide table that Define appends to.
var DefaultTable = NewTable()

// NewTable returns an empty table for tests.
func NewTable() *Table { return &Table{entries: map[string]*Entry{}} }

// Add enters a definition. A bad one (err, an empty or duplicate name, a frozen table) is recorded and reported by
// system.New, since the initialisation of a package variable cannot return an error. skip is the number of frames
// between the program's Define call and Add.
func (t *Table) Add(kind, name string, fingerprint uint64, err error, skip int) *Entry {
	e := &Entry{Kind: kind, Name: name, Fingerprint: fingerprint, Table: t, Site: "unknown"}
	if _, file, line, ok := runtime.Caller(skip + 1); ok {
		e.Site = fmt.Sprintf("%s:%d", file, line)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := e.String()
	old := t.entries[key]
	switch {
	case name == "":
		err = errors.Join(errors.New("the name is empty"), err)
	case old != nil:
		err = errors.Join(fmt.Errorf("the name is taken by the definition at %s", old.Site), err)
	case t.frozen:
		err = errors.Join(errors.New("defined after system.New: define in package variables or init"), err)
	}
	if err != nil {
		e.bad = true
		t.bad = append(t.bad, fmt.Errorf("%w: %s at %s: %w", ErrBadDefinition, e, e.Site, err))
		return e
	}
	t.entries[key] = e
	t.order = append(t.order, e)
	return e
}

// Freeze ends definition and returns all bad ones, joined. system.New calls it.
func (t *Table) Freeze() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = true
	return errors.Join(t.bad...)
}

// Fitter is implemented by the Impl of an entry that not every cluster and namespace can have.
type Fitter interface {
	Fits(cluster, namespace string) error
}

// Fit returns what is wrong with definitions in this cluster, "" for none, and this namespace, joined. system.New calls it.
func (t *Table) Fit(cluster, namespace string) error {
	var bad []error
	for _, e := range t.Entries() {
		if f, ok := e.Impl.(Fitter); ok {
			if err := f.Fits(cluster, namespace); err != nil {
				bad = append(bad, fmt.Errorf("%w: %s at %s: %w", ErrBadDefinition, e, e.Site, err))
			}
		}
	}
	return errors.Join(bad...)
}

// Lookup finds a good definition, nil when there is none.
func (t *Table) Lookup(kind, name string) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries[kind+" "+name]
}

// Entries lists the good definitions in order.
func (t *Table) Entries() []*Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*Entry(nil), t.order...)
}

// In reports whether e is a good definition of t.
func (e *Entry) In(t *Table) bool { return e.Table == t && !e.bad }

// Unknown is the error for a handle whose table is not the system's.
func (e *Entry) Unknown() error {
	if e.bad {
		return fmt.Errorf("%w: %s (defined at %s) is a bad definition, or came after system.New: define in package variables or init",
			ErrUnknownFunc, e, e.Site)
	}
	return fmt.Errorf("%w: %s (defined at %s) is not in this system's table: pass its table in system.Config.Table, or define it with Define",
		ErrUnknownFunc, e, e.Site)
}

// HandleIn is the handle of the engine in a *grains.Func or a *tasks.Task, its last field. It has no accessor: each method of a generic
// type is compiled for each type that a program has.
func HandleIn(handle any) unsafe.Pointer {
	v := reflect.ValueOf(handle).Elem()
	return v.Field(v.NumField() - 1).Addr().UnsafePointer()
}

// registered maps wire names to the concrete types that may stand in interface fields and as errors.
var registered struct {
	sync.RWMutex
	byName map[string]reflect.Type
	byType map[reflect.Type]string
}

// Register is raysys.Register, for its caller's caller.
func Register(t reflect.Type, name string) struct{} {
	registered.Lock()
	defer registered.Unlock()
	if registered.byName == nil {
		registered.byName, registered.byType = map[string]reflect.Type{}, map[reflect.Type]string{}
	}
	oldT, hasName := registered.byName[name]
	oldN, hasType := registered.byType[t]
	switch {
	case hasName && oldT != t:
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s: the name belongs to %s", t, oldT), 2)
	case hasType && oldN != name:
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s: the type is registered as %q", t, oldN), 2)
	case name == "":
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s", t), 2)
	default:
		registered.byName[name], registered.byType[t] = t, name
	}
	return struct{}{}
}

// RegisteredType returns the type registered under name.
func RegisteredType(name string) (reflect.Type, bool) {
	registered.RLock()
	defer registered.RUnlock()
	t, ok := registered.byName[name]
	return t, ok
}

// RegisteredName returns the name t is registered under.
func RegisteredName(t reflect.Type) (string, bool) {
	registered.RLock()
	defer registered.RUnlock()
	n, ok := registered.byType[t]
	return n, ok
}

// sentinels are the error values that keep their identity across nodes.
var sentinels struct {
	sync.RWMutex
	byName map[string]error
	order  []string
}

// RegisterError is raysys.RegisterError, for its caller's caller.
func RegisterError(name string, sentinel error) struct{} {
	sentinels.Lock()
	defer sentinels.Unlock()
	if sentinels.byName == nil {
		sentinels.byName = map[string]error{}
	}
	old, taken := sentinels.byName[name]
	switch {
	case name == "" || sentinel == nil || !reflect.TypeOf(sentinel).Comparable():
		DefaultTable.Add("error", name, 0, fmt.Errorf("register error %v: give a name and a comparable error value", sentinel), 2)
	case taken && old != sentinel:
		DefaultTable.Add("error", name, 0, fmt.Errorf("register error %v: the name belongs to %v", sentinel, old), 2)
	case !taken:
		sentinels.byName[name] = sentinel
		sentinels.order = append(sentinels.order, name)
	}
	return struct{}{}
}

// Sentinel makes an error that programs match by errors.Is, and registers it for the wire: a package above says both in one line.
func Sentinel(name, text string) error {
	err := errors.New(text)
	RegisterError(name, err)
	return err
}

// RegisteredError returns the sentinel registered under name, nil when there is none.
func RegisteredError(name string) error {
	sentinels.RLock()
	defer sentinels.RUnlock()
	return sentinels.byName[name]
}

// is is errors.Is; an error whose methods panic is nothing.
func is(err, target error) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return errors.Is(err, target)
}

// RegisteredErrors returns the names of the sentinels that err is.
func RegisteredErrors(err error) (names []string) {
	sentinels.RLock()
	defer sentinels.RUnlock()
	for _, n := range sentinels.order {
		if is(err, sentinels.byName[n]) {
			names = append(names, n)
		}
	}
	return names
}
