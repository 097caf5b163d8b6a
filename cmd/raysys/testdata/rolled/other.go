//go:build other

package main

import (
	"context"

	"github.com/raysys/raysys/tasks"
)

// square has another type than in the other builds.
var square = tasks.Define("square", func(_ context.Context, n int) (int64, error) { return int64(n * n), nil })

var _ = tasks.Define("cube", func(_ context.Context, n int) (int, error) { return n * n * n, nil })
