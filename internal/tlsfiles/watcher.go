package tlsfiles

import (
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/link"
)

const (
	lookEvery   = time.Minute // between two looks at the files of TLS
	recordAgain = time.Second // after the store did not take a new key
)

// expiryDays are how many days before a certificate expires a line is logged, the last first.
var expiryDays = []int{0, 1, 7, 30}

// Config is the node whose files a Watcher looks at.
type Config struct {
	TLS      *link.TLS
	Cert, CA string // the files, for messages
	Log      *zap.Logger
	Allow    func(*x509.Certificate) error // whether the node may have it
	Record   func(print string) error      // writes the fingerprint of the node's key to its record
	Distrust func()                        // ends sessions with nodes that the CA file does not verify
}

// Watcher has a node use new files of TLS without a restart, and warns before a certificate expires.
type Watcher struct {
	Config

	mu       sync.Mutex           // guards the rest, and is held during a look
	recorded string               // the fingerprint in the record; "" is unknown
	failed   string               // the error that the log has
	warned   map[string]time.Time // by file: since when the last line that the log has was due
}

// New makes a Watcher of a node whose record has the fingerprint of the key that it uses now.
func New(c Config) *Watcher {
	return &Watcher{Config: c, recorded: link.KeyFingerprint(c.TLS.Credentials().Certificate()), warned: map[string]time.Time{}}
}

// Run looks at the files until pause returns false.
func (w *Watcher) Run(pause func(time.Duration) bool) {
	w.mu.Lock()
	w.warn()
	w.mu.Unlock()
	for again := lookEvery; pause(again); {
		again = w.Look()
	}
}

// Look uses what the files hold now, and returns when to look again. What cannot be used is left alone until it changes.
func (w *Watcher) Look() (again time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again = lookEvery
	next, err := w.TLS.Reload()
	if err == nil && next != nil {
		err = w.Allow(next.Certificate())
	}
	if err == nil {
		shown := next
		if next == nil {
			shown = w.TLS.Credentials()
		}
		// The key goes into the record first: other nodes refuse one that the store does not have.
		if print := link.KeyFingerprint(shown.Certificate()); print != w.recorded {
			w.recorded = "" // after an error the record may have either
			if err = w.Record(print); err != nil {
				again = recordAgain
			} else {
				w.recorded = print
			}
		}
	}
	switch {
	case err != nil && err.Error() != w.failed:
		w.failed = err.Error()
		w.Log.Warn("new TLS files are not used; the old ones stay in use, and the files are looked at again", zap.Error(err))
	case err == nil && next != nil:
		w.TLS.Use(next)
		own, ca := next.Ends()
		w.Log.Info("new TLS files are in use", zap.String("certificate", w.Cert), zap.Time("expires", own), zap.String("ca", w.CA), zap.Time("ca_expires", ca))
	}
	if err == nil {
		w.failed = ""
	}
	w.Distrust()
	w.warn()
	return again
}

// warn logs once that a certificate expires within each of expiryDays, or has expired.
func (w *Watcher) warn() {
	own, ca := w.TLS.Credentials().Ends()
	w.warnOf(w.Cert, own, "put a new certificate and its key into the same files, no restart is needed")
	w.warnOf(w.CA, ca, "add a new CA to the file on all nodes, then replace their certificates, no restart is needed")
}

func (w *Watcher) warnOf(file string, end time.Time, fix string) {
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
		w.Log.Warn(text, zap.String("file", file), zap.Time("expires", end), zap.String("left", fmt.Sprintf("%.1f days", left.Hours()/24)), zap.String("fix", fix))
		return
	}
}
