package jetbus_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/stream/internal/jetbus"
)

// TestErrorsHideThePassword: an error names servers by host and port alone.
func TestErrorsHideThePassword(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]jetbus.Config{
		"a sign":         {URL: "nats://user:sesa%me@h:1"},
		"a slash":        {URL: "nats://user:sesame/open@h:1"},
		"no host":        {URL: "nats://sesame@"},
		"second of two":  {URL: "nats://h:1,nats://user:sesame%zz@h:2"},
		"no CA file":     {URL: "tls://user:sesame@h:1", CA: missing},
		"no creds":       {URL: "nats://user:sesame@h:1", Creds: missing},
		"another scheme": {URL: "sesame://user:sesame@h:1", CA: missing},
	} {
		b, err := jetbus.Open(c)
		switch {
		case err == nil:
			b.Close()
			if c.Creds == "" { // the client reads them when it connects
				t.Errorf("%s: no error", name)
			}
		case strings.Contains(err.Error(), hidden):
			t.Errorf("%s: %v", name, err)
		}
	}
}
