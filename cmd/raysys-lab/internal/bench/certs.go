package bench

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/system"
)

// certified are the files that a node finds in a directory of makeCertificates.
func certified(dir, node string) system.TLSFiles {
	return system.TLSFiles{
		Cert: filepath.Join(dir, node+".crt"), Key: filepath.Join(dir, node+".key"), CA: filepath.Join(dir, "ca.crt"),
	}
}

// makeCertificates makes an authority, and certificates of it for nodes of a cluster. They are good for a day.
func makeCertificates(dir, cluster string, nodes []string) error {
	a, err := certs.New(dir)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		uri := fmt.Sprintf("raysys://%s/%s", cluster, node)
		if _, _, err := a.Issue(node, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour), uri); err != nil {
			return err
		}
	}
	return nil
}
