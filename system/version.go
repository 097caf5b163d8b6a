package system

import "runtime/debug"

// module is this module's path, under which a program's build information has its version.
const module = "github.com/raysys/raysys"

// Version is the version of raysys in this program, "(devel)" for a program that was built from a changed tree. Nodes
// tell it to each other.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}
