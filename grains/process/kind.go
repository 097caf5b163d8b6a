package process

import (
	"context"
	"errors"
	"reflect"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// Kind is a kind of grains that have a child each. Make it once, in a package variable.
type Kind struct {
	grains.Kind[Child]
	cfg *Config
}

// Define makes a kind of grains under name, in the process-wide table. The first call of a grain starts its child. Among the options,
// grains.Holds gives it GPUs, and grains.StatelessWorker makes a key a pool of children. A bad definition is reported by system.New.
func Define(name string, cfg Config, opts ...grains.Option) Kind {
	checked(name, cfg.check())
	return Kind{grains.Define[Child](name, append([]grains.Option{grains.Unfiltered()}, opts...)...), &cfg}
}

// checked notes what is wrong with a definition of the program.
func checked(name string, err error) {
	if err != nil {
		core.DefaultTable.Add("process", name, 0, err, 2)
	}
}

// Method makes a method of the child's object callable under its name, as Call does.
func Method[A, R any](k Kind, name string) grains.Func[Child, A, R] {
	_, badArg := planOf(reflect.TypeFor[A]())
	_, badResult := planOf(reflect.TypeFor[R]())
	checked(k.Name()+"."+name, errors.Join(badArg, badResult))
	return grains.Method(k.Kind, name, func(c *Child, ctx context.Context, arg A) (R, error) {
		c.use(k.cfg)
		return Call[A, R](ctx, c, name, arg)
	})
}

// use is Start by the first call.
func (c *Child) use(cfg *Config) {
	if c.cfg == nil {
		c.cfg = cfg
	}
}
