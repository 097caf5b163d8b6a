package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/internal/worklog"
)

// keptLog keeps what a program writes, and what is said of it.
type keptLog struct {
	talk io.Writer // for what the supervisor says
	gone func()    // removes a folder that was made

	mu     sync.Mutex // guards the rest
	keeper *worklog.Keeper
	own    io.Writer
}

// keepLog has lines kept, and shown as --log-format says. The program writes JSON, and learns where the files are. Where they cannot be
// made the node works without.
func keepLog(cmd *cobra.Command, f *nodeFlags, lines *supervise.Lines, own io.Writer) (*keptLog, error) {
	pretty := f.logFormat == "terminal" || f.logFormat == "" && readByPerson(cmd.ErrOrStderr())
	k := &keptLog{own: own}
	folder, gone, err := worklog.Folder(f.logDir)
	k.gone = gone
	if err == nil {
		k.keeper, err = worklog.NewKeeper(folder, f.name, pretty)
	} else {
		k.keeper = worklog.NoKeeper(pretty)
	}
	if err != nil {
		fmt.Fprintf(own, "what the program writes is not kept, and raysys logs has none of it: %v: give another --log-dir\n", err)
		folder = ""
	}
	k.talk, lines.Keep = k, k.keep
	for name, value := range map[string]string{"log-format": "json", "log-dir": folder} {
		if err := cmd.Flags().Set(name, value); err != nil {
			return k, err
		}
	}
	return k, nil
}

// keep is Keep of the program's lines.
func (k *keptLog) keep(stream string, line []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	shown, err := k.keeper.Keep(stream, line)
	if err != nil {
		fmt.Fprintln(k.own, err)
	}
	return shown
}

// Write writes what the supervisor says, and keeps it.
func (k *keptLog) Write(p []byte) (int, error) {
	var err error
	for line := range bytes.Lines(p) {
		text := printable.Escape(string(bytes.TrimRight(line, "\n")))
		if _, failed := io.WriteString(k.own, text+"\n"); failed != nil {
			err = failed
		}
		k.keep(worklog.Supervisor, []byte(text))
	}
	return len(p), err
}

func (k *keptLog) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.keeper.Close() // each line was written at once
	k.gone()
}
