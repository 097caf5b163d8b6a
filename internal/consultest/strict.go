package consultest

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// What Consul 1.22.0 takes as the name of a key at /v1/kv (validateKVKey there), and what it does not for its end. There is
// no such Consul to build here, so a proxy applies the rule.
var (
	keyName = regexp.MustCompile(`^[a-zA-Z0-9,_./-]+$`)
	fileEnd = regexp.MustCompile(`(?i)\.(js|css|html?|xml|json|txt|log|php|asp|jsp|cgi|pl|py|rb|sh|exe|dll|bat|cmd|com|scr|vbs|pdf|docx?|xlsx?|pptx?|zip|rar|tar|gz|7z|bz2|jpe?g|png|gif|svg|ico|bmp|mp3|mp4|avi|mov|wmv|flv|swf|woff2?|ttf|eot|otf)$`)
)

// Strict starts a proxy in front of the Consul at an address that refuses names of keys as Consul 1.22.0 does, and returns
// its address. It goes with the test.
func Strict(t testing.TB, address string) string {
	t.Helper()
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	through.FlushInterval = -1
	through.ErrorLog = log.New(io.Discard, "", 0) // a watch whose client ends it is no news
	through.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/v1/kv/")
		switch {
		case !ok || name == "":
		case !keyName.MatchString(name) || strings.Contains(name, "../"):
			http.Error(w, fmt.Sprintf("key contains invalid character: %q. Only alphanumeric characters and ,-_./ are allowed", name), http.StatusBadRequest)
			return
		case fileEnd.MatchString(name):
			http.Error(w, fmt.Sprintf("key contains suspicious file extension: %q", name), http.StatusBadRequest)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		through.Transport.(*http.Transport).CloseIdleConnections()
	})
	return strings.TrimPrefix(s.URL, "http://")
}
