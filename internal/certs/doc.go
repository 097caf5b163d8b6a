// Package certs makes the certificate files of a cluster's nodes, for tests and measurements.
//
//	a, err := certs.New(dir)
//	cert, key, err := a.Issue("a", begin, end, "raysys://test/a")
//	transport, err := link.LoadTLS(cert, key, a.CA)
//
// An [Authority] signs certificates and writes each beside its key, as PEM files in one directory. The secret of the
// authority itself stays in memory, so nothing can be added to a directory later. A production cluster has its own
// authority.
package certs
