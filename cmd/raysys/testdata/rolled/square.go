//go:build !other

package main

import (
	"context"

	"github.com/raysys/raysys/tasks"
)

var square = tasks.Define("square", func(_ context.Context, n int) (int, error) { return n * n, nil })
