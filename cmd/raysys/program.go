package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/raysys/raysys/cmd/internal/cli"
)

// program finds the file that is started.
func program(app string) (string, error) {
	path, err := exec.LookPath(app)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		// A name without a slash that is in this folder and not in PATH is taken, since --app app in its folder means
		// that file.
		return filepath.Abs(path)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound):
		return "", cli.Usagef("--app %s does not exist: build it (go build -o %[1]s .), or give another path", app)
	default:
		return "", cli.Usagef("--app %s cannot be run: %s: make it executable, or give another path", app, cli.Reason(err))
	}
}

// environment is that of the program: what this process has, with every setting under its own name.
func environment(flags *pflag.FlagSet, base []string) []string {
	set := map[string]string{"RAYSYS_ROLE": "worker"}
	flags.VisitAll(func(f *pflag.Flag) {
		if cli.Setting(f.Name) {
			set[cli.Variable(f.Name)] = f.Value.String()
		}
	})
	for _, own := range ownFlags {
		set[cli.Variable(own)] = ""
	}
	if set["RAYSYS_JOIN_TIMEOUT"] == "0s" {
		set["RAYSYS_JOIN_TIMEOUT"] = ""
	}
	for _, off := range []string{"RAYSYS_INSECURE", "RAYSYS_NO_SHARING", "RAYSYS_HTTP_INSECURE"} {
		if set[off] == "false" {
			set[off] = ""
		}
	}
	var env []string
	for _, v := range base {
		name, _, _ := strings.Cut(v, "=")
		if _, ours := set[name]; !ours {
			env = append(env, v)
		}
	}
	for name, v := range set {
		if v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// secondSignal returns a channel that is closed by a signal that comes after the one that ended ctx. While it listens
// the second signal does not end this process by itself, so that the program can be killed first.
func secondSignal() (<-chan struct{}, func()) {
	kill, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(ended)
		first := true
		for {
			select {
			case <-signals:
				// The first is the one that ends ctx, though it may come here before it gets there.
				if !first {
					close(kill)
					return
				}
				first = false
			case <-done:
				return
			}
		}
	}()
	return kill, func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}
