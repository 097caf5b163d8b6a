package system

import (
	"context"
	"log/slog"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/operate"
	"github.com/raysys/raysys/internal/taskengine"
)

// nodeRuntime implements core.Runtime, and what the engines need of a turn's runtime, for a Node. These are no methods
// of Node itself, whose methods are for programs.
type nodeRuntime Node

var (
	_ core.Runtime        = (*nodeRuntime)(nil)
	_ core.Loggers        = (*nodeRuntime)(nil)
	_ core.WhyRuntime     = (*nodeRuntime)(nil)
	_ core.DeviceWatcher  = (*nodeRuntime)(nil)
	_ taskengine.Runtime  = (*nodeRuntime)(nil)
	_ grainengine.Runtime = (*nodeRuntime)(nil)

	_ grainengine.Unloader = (*nodeRuntime)(nil)
)

// Now implements core.Runtime.
func (n *nodeRuntime) Now() int64 { return n.wheel.Now() }

// SetAlarm implements core.Runtime.
func (n *nodeRuntime) SetAlarm(a *core.Alarm) { n.wheel.Set(a) }

// ClearAlarm implements core.Runtime.
func (n *nodeRuntime) ClearAlarm(a *core.Alarm) bool { return n.wheel.Clear(a) }

// Block implements core.Runtime.
func (n *nodeRuntime) Block(t *core.Turn) {
	operate.Blocks(n.operator)
	n.tasks.Block(t)
	if t.Kind() == core.TurnGrain {
		n.grains.Block(t)
	}
}

// Unblock implements core.Runtime.
func (n *nodeRuntime) Unblock(t *core.Turn) {
	if t.Kind() == core.TurnGrain {
		n.grains.Unblock(t)
	}
	n.tasks.Unblock(t)
}

// Logger implements core.Loggers.
func (n *nodeRuntime) Logger(t *core.Turn) *slog.Logger { return n.lines.Logger(t) }

// WatchDevices implements core.DeviceWatcher.
func (n *nodeRuntime) WatchDevices(uuids []string, sick func(uuid, cause string)) (stop func()) {
	return n.health.Watch(uuids, sick)
}

// Why implements core.WhyRuntime.
func (n *nodeRuntime) Why(ctx context.Context, c *core.Future) (core.Explanation, error) {
	return n.operator.WhyValue(ctx, c)
}

// ExplainWork is raysys.Explain.
func (n *nodeRuntime) ExplainWork(ctx context.Context, c *core.Future) (raysys.Scheduling, error) {
	return n.operator.ExplainWork(ctx, c)
}

// Unload implements grainengine.Unloader.
func (n *nodeRuntime) Unload(ctx context.Context, id graindir.ID) error {
	return operate.Unload(ctx, n.operator, id)
}

// Groups implements groupengine.Runtime.
func (n *nodeRuntime) Groups() *groupengine.Client { return n.groups.Client }

// Tasks implements taskengine.Runtime.
func (n *nodeRuntime) Tasks() *taskengine.Engine { return n.tasks }

// Grains implements grainengine.Runtime.
func (n *nodeRuntime) Grains() *grainengine.Engine { return n.grains }
