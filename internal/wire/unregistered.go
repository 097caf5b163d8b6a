package wire

import (
	"reflect"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/raysys/raysys"
)

// Reporter is a Peer that says where a person looks that errors of some type lose it on the way to another node.
type Reporter interface {
	// Unregistered is called with the type of each such error. It must not block.
	Unregistered(t reflect.Type)
}

// AppendErrorTo is AppendError for the failure of a program's function, which goes to p.
func AppendErrorTo(dst []byte, p Peer, err error) []byte {
	if r, ok := p.(Reporter); ok {
		unregistered(err, r, 0)
	}
	return AppendError(dst, err)
}

// unregistered tells r of every type in err's tree that errors.As finds only on this node.
func unregistered(err error, r Reporter, depth int) {
	if err == nil || depth > maxErrorDepth {
		return
	}
	if _, ok := registeredType(err); ok {
		return // it travels as a value, with all that its fields hold
	}
	if t := reflect.TypeOf(err); lostType(t) {
		r.Unregistered(t)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		unregistered(e.Unwrap(), r, depth+1)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap()[:min(len(e.Unwrap()), maxErrorParts)] {
			unregistered(inner, r, depth+1)
		}
	}
}

// lostTypes remembers lostType: reflect.Type -> bool.
var lostTypes sync.Map

// lostType reports whether t is an error type of the program, which its authors can register. The standard library's
// keep what errors.Is finds in them, and an unexported type of a library cannot be named by a program.
func lostType(t reflect.Type) bool {
	if lost, ok := lostTypes.Load(t); ok {
		return lost.(bool)
	}
	named := t
	if t.Kind() == reflect.Pointer {
		named = t.Elem()
	}
	path, first := named.PkgPath(), named.Name()
	own := path == "main" || within(path, programModule())
	lost := first != "" && (own || exported(first) && strings.Contains(strings.SplitN(path, "/", 2)[0], ".")) && !raysysOwn(path)
	lostTypes.Store(t, lost)
	return lost
}

func exported(name string) bool { return name[0] >= 'A' && name[0] <= 'Z' }

func within(path, module string) bool {
	return module != "" && (path == module || strings.HasPrefix(path, module+"/"))
}

// programModule is the path of the module that the program is built from, "" where that is not known.
var programModule = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
})

// raysysModule is this module: the path of a type that the root declares, and does not alias.
var raysysModule = reflect.TypeFor[raysys.TaskError]().PkgPath()

// raysysOwn reports whether path is a package of raysys that programs use: neither an example nor a test.
func raysysOwn(path string) bool {
	return within(path, raysysModule) && !within(path, raysysModule+"/examples") && !strings.HasSuffix(path, "_test")
}
