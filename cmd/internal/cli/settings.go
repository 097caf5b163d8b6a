package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/raysys/raysys/internal/printable"
)

// Where a value comes from, kept with its flag.
const (
	sourceNote = "raysys_source"
	printFlag  = "print-config"
	noVariable = "raysys_no_variable"
)

// errPrinted ends a command that was only asked for its settings.
var errPrinted = errors.New("settings printed")

// Setting reports whether a flag is one that a variable can stand in for: the others ask for something once.
func Setting(flag string) bool { return flag != "help" && flag != "version" && flag != printFlag }

// Variable is the name of the variable that stands in for a flag.
func Variable(flag string) string {
	return "RAYSYS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromEnvironment sets every flag that was not given from RAYSYS_NAME, its name in capitals, so that the flag wins
// over the variable and the variable over the default.
func FromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if !Setting(f.Name) || f.Annotations[noVariable] != nil && !f.Changed {
			return
		}
		if f.Changed {
			note(f, "flag")
			return
		}
		name := Variable(f.Name)
		v := os.Getenv(name)
		if v == "" {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			errs = append(errs, Usagef("%s=%q cannot be meant for --%s: %s", name, v, f.Name, Reason(err)))
		}
		note(f, name)
	})
	return errors.Join(errs...)
}

func note(f *pflag.Flag, source string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[sourceNote] = []string{source}
}

// DefaultFrom says where a default that is not always the same comes from.
func DefaultFrom(flags *pflag.FlagSet, name, source string) { note(flags.Lookup(name), source) }

// NoVariable has no variable stand in for the flag: that of its name is for something else.
func NoVariable(flags *pflag.FlagSet, name string) {
	note(flags.Lookup(name), "default")
	flags.Lookup(name).Annotations[noVariable] = []string{""}
}

// Reason is the innermost error: those around it name a flag that the user did not give.
func Reason(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

// setting is a line of --print-config.
type setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source"` // flag, a variable, or default
	Variable string `json:"variable"`
}

func settings(flags *pflag.FlagSet) []setting {
	var all []setting
	flags.VisitAll(func(f *pflag.Flag) {
		if !Setting(f.Name) || f.Hidden {
			return
		}
		s := setting{Name: f.Name, Value: Redact(f.Value.String()), Source: "default", Variable: Variable(f.Name)}
		if n := f.Annotations[sourceNote]; n != nil {
			s.Source = n[0]
		}
		all = append(all, s)
	})
	return all
}

// Redact is an address or a URL, or several with commas between, for messages: what may be a user with a password is "...", and so is a query. A
// list of KEY=VALUE without a URL stays as it is.
func Redact(value string) string {
	before, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		if key, _, pair := strings.Cut(value, "="); pair && !strings.ContainsAny(key, ":@/") {
			return value
		}
		before, rest = "", value
	} else {
		before += "://"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 { // a password may have any sign
		rest = "..." + rest[at:]
	}
	if end := strings.IndexAny(rest, "?#"); isURL && end >= 0 {
		rest = rest[:end+1] + "..."
	}
	return before + rest
}

// prepare runs before every command: it reads the variables, and answers --print-config.
func prepare(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if err := FromEnvironment(flags); err != nil {
		return err
	}
	if asked, _ := flags.GetBool(printFlag); !asked {
		return nil
	}
	all := settings(flags)
	w := cmd.OutOrStdout()
	if f := flags.Lookup("output"); f != nil && f.Value.String() == string(JSON) {
		if err := printable.WriteJSON(w, all); err != nil {
			return err
		}
		return errPrinted
	}
	if err := settingsTable(w, all); err != nil {
		return err
	}
	return errPrinted
}

func settingsTable(w io.Writer, all []setting) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SETTING\tVALUE\tSOURCE\tVARIABLE")
	for _, s := range all {
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Name, value, s.Source, s.Variable)
	}
	return t.Flush()
}
