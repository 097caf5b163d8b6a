package main

import (
	"os"

	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/internal/consulbuild"
)

func main() { os.Exit(childserver.BuildMain(consulbuild.Build, "bin/consul")) }
