package cli

import (
	"errors"

	"github.com/spf13/pflag"
)

// Output is the form of the data on standard output.
type Output string

// The forms.
const (
	Table Output = "table"
	JSON  Output = "json"
)

var errOutput = errors.New("the forms are table and json")

// String, Set and Type implement pflag.Value.
func (o *Output) String() string { return string(*o) }

// Set refuses an unknown form.
func (o *Output) Set(s string) error {
	switch Output(s) {
	case Table, JSON:
		*o = Output(s)
		return nil
	}
	return errOutput
}

// Type names the value in the help text.
func (o *Output) Type() string { return "table|json" }

// OutputFlag adds the flag that chooses the form.
func OutputFlag(flags *pflag.FlagSet) *Output {
	o := Table
	flags.VarP(&o, "output", "o", "form of the data on standard output")
	return &o
}
