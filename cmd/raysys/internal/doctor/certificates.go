package doctor

import (
	"context"
	"fmt"
	"time"
)

// Certificates are when the certificate in the TLS files expires, and that of the CA that verifies it.
type Certificates struct{ Own, CA time.Time }

// expiresSoon is when it is time for a new certificate.
const expiresSoon = 30 * 24 * time.Hour

// certificates: the TLS files of this host are good, and stay so for a while. Nodes log the same of theirs.
func (d *Doctor) certificates(context.Context, *ground) Finding {
	if d.Certificates == nil {
		return Finding{Level: OK, Detail: "no TLS: no files were given"}
	}
	const replace = "put a new certificate and its key into the same files; nodes use them within a minute"
	c, err := d.Certificates()
	if err != nil { // it has expired, too
		return Finding{Level: Failed, Detail: err.Error(), Fix: replace}
	}
	now := d.Now()
	days := func(end time.Time) float64 { return max(0, end.Sub(now).Hours()/24) }
	f := Finding{Level: OK, Detail: fmt.Sprintf("the certificate is good for %.0f days, its CA for %.0f", days(c.Own), days(c.CA))}
	first, fix := c.Own, replace
	if c.CA.Before(c.Own) {
		first, fix = c.CA, "add a new CA to the file on all hosts, then replace the certificates, then take the old CA out"
	}
	switch left := first.Sub(now); {
	case left <= 0:
		f.Level, f.Fix = Failed, fix
	case left < expiresSoon:
		f.Level, f.Fix = Warning, fix
	}
	return f
}
