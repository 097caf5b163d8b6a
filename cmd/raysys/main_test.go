package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/raysys/raysys/cmd/internal/clitest"
)

func TestMain(m *testing.M) {
	if clitest.Asked() {
		main()
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		"raysys": main, "app": app, "worker": ofUser(worker), "cartpole": ofUser(cartpole), "holder": ofUser(holder), "grouper": ofUser(grouper), "namer": ofUser(namer), "maker": ofUser(maker),
		"jobber": ofUser(worker), "teller": ofUser(teller), "timekeeper": ofUser(timekeeper), "troubler": ofUser(troubler), "banker": ofUser(banker),
	})
}

// ofUser is the main function of a user's program, whose namespace is never that of raysys.
func ofUser(main func()) func() {
	return func() {
		if os.Getenv("RAYSYS_NAMESPACE") == "" {
			os.Setenv("RAYSYS_NAMESPACE", "example.com/script")
		}
		main()
	}
}

// leakChecked is goleak.VerifyTestMain for who wants to run the tests itself.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if asked.Load() {
		if server, err := shared(); err == nil {
			server.Close()
		}
	}
	if built != "" {
		os.RemoveAll(built)
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestExitCodes(t *testing.T) {
	clitest.ExitCodes(t, run, []clitest.Case{
		{Args: []string{}, Code: 0},
		{Args: []string{"--help"}, Code: 0},
		{Args: []string{"status", "--help"}, Code: 0},
		{Args: []string{"frobnicate"}, Code: 2, Talk: `command "frobnicate" does not exist: run raysys --help`},
		{Args: []string{"--frobnicate"}, Code: 2, Talk: "run raysys --help"},
		{Args: []string{"status", "--bogus"}, Code: 2, Talk: "unknown flag: --bogus: run raysys status --help"},
		{Args: []string{"version", "now"}, Code: 2, Talk: `raysys version takes no argument, and was given "now"`},
		{Args: []string{"version", "-o", "yaml"}, Code: 2, Talk: "the forms are table and json"},
		{Args: []string{"version"}, Variables: []string{"RAYSYS_OUTPUT=yaml"}, Code: 2, Talk: `RAYSYS_OUTPUT="yaml" cannot be meant for --output: the forms are table and json`},
	})
}

// The codes reach the shell.
func TestExitCodesOfTheProcess(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"version"}, 0}, {[]string{"frobnicate"}, 2}} {
		if _, stderr, code := clitest.Command(t, c.args, nil); code != c.code {
			t.Errorf("raysys %q: exit %d, want %d: %s", c.args, code, c.code, stderr)
		}
	}
}
