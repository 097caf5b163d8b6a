package system

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
)

const (
	certificatesLook  = time.Minute     // between two looks at the files of TLS
	certificatesAgain = time.Second     // after the store did not take a new key
	certificatesWrite = 5 * time.Second // bounds one attempt to write it
)

// expiryDays are how many days before a certificate expires a line is logged, the last first.
var expiryDays = []int{0, 1, 7, 30}

// certificates has the node use new files of TLS without a restart, and warns before a certificate expires.
type certificates struct {
	tls      *link.TLS
	files    TLSFiles
	log      *zap.Logger
	allow    func(*x509.Certificate) error // whether the node may have it
	record   func(print string) error      // writes the fingerprint of the node's key to its record
	distrust func()                        // ends sessions with nodes that the CA file does not verify

	mu       sync.Mutex           // guards the rest, and is held during a look
	recorded string               // the fingerprint in the record; "" is unknown
	failed   string               // the error that the log has
	warned   map[string]time.Time // by file: since when the last line that the log has was due
}

// newCertificates returns nil where the node does not speak TLS.
func (c *cluster) newCertificates(t transport) *certificates {
	files, ok := t.Transport.(*link.TLS)
	if !ok {
		return nil
	}
	return &certificates{
		tls: files, files: c.cfg.TLS, log: c.log, recorded: t.print, warned: map[string]time.Time{},
		allow: func(cert *x509.Certificate) error { return allowed(cert, c.cfg.Role) },
		record: func(print string) error {
			ctx, cancel := context.WithTimeout(c.ctx, certificatesWrite)
			defer cancel()
			return c.member.Update(ctx, func(i *member.Info) { i.KeyPrint = print })
		},
		distrust: func() { c.mesh.EndDistrusted(files) },
	}
}

// run looks at the files until pause returns false.
func (w *certificates) run(pause func(time.Duration) bool) {
	w.mu.Lock()
	w.warn()
	w.mu.Unlock()
	for again := certificatesLook; pause(again); {
		again = w.look()
	}
}

// look uses what the files hold now, and returns when to look again. What cannot be used is left alone until it changes.
func (w *certificates) look() (again time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again = certificatesLook
	next, err := w.tls.Reload()
	if err == nil && next != nil {
		err = w.allow(next.Certificate())
	}
	if err == nil {
		shown := next
		if next == nil {
			shown = w.tls.Credentials()
		}
		// The key goes into the record first: other nodes refuse one that the store does not have.
		if print := link.KeyFingerprint(shown.Certificate()); print != w.recorded {
			w.recorded = "" // after an error the record may have either
			if err = w.record(print); err != nil {
				again = certificatesAgain
			} else {
				w.recorded = print
			}
		}
	}
	switch {
	case err != nil && err.Error() != w.failed:
		w.failed = err.Error()
		w.log.Warn("new TLS files are not used; the old ones stay in use, and the files are looked at again", zap.Error(err))
	case err == nil && next != nil:
		w.tls.Use(next)
		own, ca := next.Ends()
		w.log.Info("new TLS files are in use", zap.String("certificate", w.files.Cert), zap.Time("expires", own), zap.String("ca", w.files.CA), zap.Time("ca_expires", ca))
	}
	if err == nil {
		w.failed = ""
	}
	w.distrust()
	w.warn()
	return again
}

// warn logs once that a certificate expires within each of expiryDays, or has expired.
func (w *certificates) warn() {
	own, ca := w.tls.Credentials().Ends()
	w.warnOf(w.files.Cert, own, "put a new certificate and its key into the same files, no restart is needed")
	w.warnOf(w.files.CA, ca, "add a new CA to the file on all nodes, then replace their certificates, no restart is needed")
}

func (w *certificates) warnOf(file string, end time.Time, fix string) {
	left := time.Until(end)
	for _, days := range expiryDays {
		before := end.Add(-time.Duration(days) * 24 * time.Hour)
		if time.Now().Before(before) {
			continue
		}
		if w.warned[file].Equal(before) {
			return
		}
		w.warned[file] = before
		text := "a TLS certificate expires soon"
		if left <= 0 {
			text = "a TLS certificate has expired: other nodes refuse new connections"
		}
		w.log.Warn(text, zap.String("file", file), zap.Time("expires", end), zap.String("left", fmt.Sprintf("%.1f days", left.Hours()/24)), zap.String("fix", fix))
		return
	}
}
