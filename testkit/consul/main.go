package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/raysys/raysys/internal/consulbuild"
)

func main() {
	path := flag.String("o", "bin/consul", "where to put the server")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "error: %q is no flag: give -o FILE or nothing\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := consulbuild.Build(ctx, *path, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
