package main

import (
	"os"

	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/internal/natsbuild"
)

func main() { os.Exit(childserver.BuildMain(natsbuild.Build, "bin/nats-server")) }
