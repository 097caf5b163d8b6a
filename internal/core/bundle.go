package core

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
