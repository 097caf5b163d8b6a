package cuda

import (
	"errors"
	"fmt"

	"github.com/ebitengine/purego"
)

// Library is one that was loaded. It stays loaded for the life of the process: threads of its own may run in it.
type Library struct {
	name   string
	symbol func(name string) (uintptr, error)
}

// Load loads the first of these libraries that the loader finds. LD_LIBRARY_PATH comes first in that.
func Load(names ...string) (*Library, error) {
	var errs []error
	for _, name := range names {
		symbol, err := load(name)
		if err == nil {
			return &Library{name, symbol}, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Symbol is the address of a function.
func (l *Library) Symbol(name string) (uintptr, error) {
	at, err := l.symbol(name)
	if err != nil {
		return 0, fmt.Errorf("%s has no %s: %w", l.name, name, err)
	}
	return at, nil
}

// function is one that a library must have, by the first of its names that is there, and where it goes: a pointer to a func.
type function struct {
	into  any
	names []string
}

// bind looks up each function before any of them is called.
func (l *Library) bind(list []function) error {
	for _, f := range list {
		var at uintptr
		var err error
		for _, name := range f.names {
			if at, err = l.Symbol(name); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
		purego.RegisterFunc(f.into, at)
	}
	return nil
}
