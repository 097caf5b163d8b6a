package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/raysys/raysys/system"
)

// output is the form of the data on standard output.
type output string

const (
	outputTable output = "table"
	outputJSON  output = "json"
)

var errOutput = errors.New("the forms are table and json")

// String, Set and Type implement pflag.Value.
func (o *output) String() string { return string(*o) }

// Set refuses an unknown form.
func (o *output) Set(s string) error {
	switch output(s) {
	case outputTable, outputJSON:
		*o = output(s)
		return nil
	}
	return errOutput
}

// Type names the value in the help text.
func (o *output) Type() string { return "table|json" }

func outputFlag(flags *pflag.FlagSet) *output {
	o := outputTable
	flags.VarP(&o, "output", "o", "form of the data on standard output")
	return &o
}

// readByPerson reports whether w is a terminal.
func readByPerson(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && system.Terminal(f)
}
