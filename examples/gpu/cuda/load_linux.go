package cuda

import "github.com/ebitengine/purego"

// load opens a library of that name and returns what looks its functions up.
func load(name string) (symbol func(string) (uintptr, error), err error) {
	lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	return func(s string) (uintptr, error) { return purego.Dlsym(lib, s) }, nil
}
