package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/system"
)

// authority signs the certificates of a cluster's nodes, into files.
type authority struct {
	*certs.Authority
	t      testing.TB
	issued int // so that a node can have several
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a, err := certs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &authority{Authority: a, t: t}
}

// files are those of a node's certificate, which is good for a day.
func (a *authority) files(cluster, node string) system.TLSFiles {
	a.t.Helper()
	return a.filesUntil(cluster, node, time.Now().Add(24*time.Hour))
}

func (a *authority) filesUntil(cluster, node string, end time.Time) system.TLSFiles {
	a.t.Helper()
	a.issued++
	cert, key, err := a.Issue(fmt.Sprint(node, "-", a.issued), time.Now().Add(-time.Hour), end, "raysys://"+cluster+"/"+node)
	if err != nil {
		a.t.Fatal(err)
	}
	return system.TLSFiles{Cert: cert, Key: key, CA: a.CA}
}

func (a *authority) transport(f system.TLSFiles) link.Transport {
	a.t.Helper()
	t, err := link.LoadTLS(f.Cert, f.Key, f.CA)
	if err != nil {
		a.t.Fatal(err)
	}
	return t
}
