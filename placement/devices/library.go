package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// What is wrong where there are no devices, or with one.
var (
	// ErrNotLinked: the program has no library in it that could ask for devices.
	ErrNotLinked = errors.New(`no library for GPUs is linked in: import _ "github.com/raysys/raysys/placement/nvml"`)
	// ErrNoLibrary: the library cannot be used here, because there is no driver, or the program is built without cgo.
	ErrNoLibrary = errors.New("no library for GPUs")
	// ErrLost: the driver has lost the GPU.
	ErrLost = errors.New("the GPU is lost: its host must be restarted, or the GPU reset")
	// ErrSilent: a call has not come back in time.
	ErrSilent = errors.New("does not answer")
	// ErrBadSpec: the devices that are asked for cannot be meant.
	ErrBadSpec = errors.New("give auto, none or fake:NAME")
)

// Library asks for the GPUs of this host. Its calls may hang: a Watcher bounds them. Wait is called beside the others.
type Library interface {
	// GPUs lists them in the order of the PCI bus, without asking any of them.
	GPUs() ([]GPU, error)
	// Wait returns the next event, or none after that time.
	Wait(limit time.Duration) (e Event, ok bool, err error)
}

// GPU is one of a Library. It is asked one thing at a time.
type GPU interface {
	// Describe says what it is. It is called once, before Sample.
	Describe() (Description, error)
	// Sample says how it is. An error makes the GPU sick: ErrLost, for one.
	Sample() (Sample, error)
}

// Description is what never changes of a GPU.
type Description struct {
	Devices []Device // the GPU, or its MIG instances
	Links   []Link
}

// Sample is how a GPU is.
type Sample struct {
	Uncorrectable uint64 // ECC errors since the driver was loaded; a reset of the GPU ends them
	Uses          []Use  // of its devices, in the order of Description; what is missing is unknown
}

// Use is how much of a device is in use.
type Use struct {
	Used int64 // bytes
	Busy int   // percent of the last while, or Unknown
}

// Event is an Xid of a GPU, by its place among GPUs; Unknown where the library does not say which.
type Event struct {
	GPU int
	Xid uint64
}

// registered is the library that Register was given: one per process, like the driver it speaks to.
var registered struct {
	mu   sync.Mutex // guards open
	open func() (Library, error)
}

// Register makes open the library of "auto". Package nvml calls it when it is imported.
func Register(open func() (Library, error)) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	registered.open = open
}

// CheckSpec reports a specification of devices that Open would refuse before it looks for any.
func CheckSpec(spec string) error {
	name, fake := strings.CutPrefix(spec, "fake:")
	switch {
	case fake:
		_, err := parseFake(name)
		return err
	case spec != "auto" && spec != "none":
		return fmt.Errorf("devices %q: %w", spec, ErrBadSpec)
	}
	return nil
}

// Open finds the devices that spec asks for:
//
//	auto         those of the library that was registered (package nvml)
//	none         none
//	fake:h100x8  eight that are made up: see NewFake
//
// The error matches ErrBadSpec, or, where "auto" finds no library that works, ErrNotLinked or ErrNoLibrary.
func Open(spec string, cfg Config) (*Watcher, error) {
	if err := CheckSpec(spec); err != nil {
		return nil, err
	}
	switch name, fake := strings.CutPrefix(spec, "fake:"); {
	case fake:
		f, err := NewFake(name, cfg.Host)
		if err != nil {
			return nil, err
		}
		return NewWatcher(f, cfg)
	case spec == "auto":
		registered.mu.Lock()
		open := registered.open
		registered.mu.Unlock()
		if open == nil {
			return nil, ErrNotLinked
		}
		cfg.complete()
		lib, err := call(context.Background(), new(lane), cfg.Limit, open)
		if errors.Is(err, ErrSilent) {
			return nil, fmt.Errorf("%w: the driver's library %w within %v of its start", ErrNoLibrary, err, cfg.Limit)
		} else if err != nil {
			return nil, err
		}
		return NewWatcher(lib, cfg)
	}
	return NewWatcher(nothing{}, cfg)
}

// nothing is a Library without GPUs.
type nothing struct{}

func (nothing) GPUs() ([]GPU, error) { return nil, nil }

func (nothing) Wait(time.Duration) (Event, bool, error) { return Event{}, false, ErrNoLibrary }
