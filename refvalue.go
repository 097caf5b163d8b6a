package raysys

// RefValue is implemented by *Ref[T] and *Handle[T]. The codec uses it to find and to place the references inside a
// value without knowing T. For runtimes.
type RefValue interface {
	// RefCore returns the record behind the reference, nil for the zero reference.
	RefCore() *Core
	// SetRefCore points the reference at c. It fails when c holds another type than T.
	SetRefCore(c *Core) error
	// IsDependency is true for a Ref, which a task waits for, and false for a Handle.
	IsDependency() bool
}
