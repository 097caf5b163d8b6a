package raysys

import (
	"reflect"

	"github.com/raysys/raysys/internal/core"
)

// Register names a type for the wire: a concrete type that stands in interface fields of arguments and results, an
// error type that errors.As shall find on another node, or the interface type of such a field. An any needs none, nor do
// bool, string, []byte, numbers, []any and map[string]any in it. Call it from init or
// a package variable, with a name that stays stable. A name or a type registered twice differently is a bad
// definition.
func Register[T any](name string) struct{} { return core.Register(reflect.TypeFor[T](), name) }

// RegisterError names a sentinel for the wire, so that errors.Is(err, sentinel) holds also for an error that came from
// another node. Call it from init or a package variable, with a name that stays stable:
//
//	var ErrNoFunds = errors.New("no funds")
//	var _ = raysys.RegisterError("bank.no-funds", ErrNoFunds)
//
// The sentinels of raysys are registered, and so are the usual ones of the standard library (io.EOF, fs.ErrNotExist,
// context.DeadlineExceeded and their like). A name registered twice for different errors is a bad definition.
func RegisterError(name string, sentinel error) struct{} { return core.RegisterError(name, sentinel) }
