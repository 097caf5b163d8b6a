package raysys

import (
	"context"
	"log/slog"

	"github.com/raysys/raysys/internal/core"
)

// Logger returns a logger for the work of ctx: for a driver, a task or a turn of a grain. Each line has the attributes node (where the work
// runs), driver (the node whose program submitted it), function and id. Lines of level info and above are written, whatever
// RAYSYS_LOG says: to the standard error of the node, as the log is, and on a cluster to the standard error of the driver too, with the
// function and the node in front. A node sends at most 1,000 lines a second to a driver, and says how many it has omitted.
// RAYSYS_LOG_TO_DRIVER=off keeps them away from a driver.
//
// Without a node it is slog.Default.
func Logger(ctx context.Context) *slog.Logger { return core.Logger(ctx) }
