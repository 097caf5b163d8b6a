package core

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
