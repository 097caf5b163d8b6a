//go:build unix

package main

import (
	"net/url"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/raysys/raysys/internal/certs"
)

// makeCerts makes an authority and certificates of it. A NAME may say more than the file's: ops?role=driver.
func makeCerts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: certs CLUSTER NAME...")
	}
	a, err := certs.New(ts.MkAbs("."))
	ts.Check(err)
	for _, name := range args[1:] {
		uri, err := url.Parse("raysys://" + args[0] + "/" + name)
		ts.Check(err)
		_, _, err = a.Issue(uri.Path[1:], time.Now().Add(-time.Hour), time.Now().Add(time.Hour), uri.String())
		ts.Check(err)
	}
}
