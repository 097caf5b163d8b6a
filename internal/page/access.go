package page

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode"

	"github.com/raysys/raysys/internal/thishost"
)

// access says who may read the page and the API.
type access struct {
	off    string   // why nobody may
	name   string   // on loopback, by which name of a request's Host it is known beside those of loopback; "" where any will do
	local  bool     // it listens on loopback
	asks   bool     // for the token
	sha256 [32]byte // of the token
	drawn  string   // the token, where it was drawn
}

// leastToken is how long a token from a file must be.
const leastToken = 16

// newAccess reads the token's file, or draws a token where there is none and one is needed.
func newAccess(c *Config, local bool, host string) (a access, err error) {
	a.local, a.name = local, host
	if !local && c.Cert == "" && !c.Insecure {
		a.off = "the page, the API and profiles are not served here, where other hosts could read along: give RAYSYS_HTTP_TLS_CERT and RAYSYS_HTTP_TLS_KEY, or RAYSYS_HTTP_INSECURE=true, or serve at 127.0.0.1"
		return a, nil
	}
	token := ""
	switch {
	case c.TokenFile != "":
		b, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return a, fmt.Errorf("the token of the page (RAYSYS_HTTP_TOKEN_FILE): %w", err)
		}
		if token = strings.TrimSpace(string(b)); len(token) < leastToken || strings.IndexFunc(token, unsent) >= 0 {
			return a, fmt.Errorf("the token of the page in %s (RAYSYS_HTTP_TOKEN_FILE): give %d letters and digits, or more, without spaces", c.TokenFile, leastToken)
		}
	case !local:
		token = c.Draw()
		a.drawn = token
	}
	a.asks, a.sha256 = token != "", sha256.Sum256([]byte(token))
	return a, nil
}

// unsent reports whether a header cannot have the character.
func unsent(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }

var (
	errMethod = errors.New("this can only be read: GET and HEAD")
	errSite   = errors.New("a page of another site asks")
	errToken  = errors.New("a token is needed: the node takes it from the file of RAYSYS_HTTP_TOKEN_FILE, and raysys --url as well; or it has written it to its standard error")
)

// behindProxy has the name of a header.
const behindProxy = "behind a proxy: give RAYSYS_HTTP_TOKEN_FILE. The request has the header %s, so it may be of any host, and without a token only this host is answered"

// refuse says why a request gets nothing, with a status code; 0 where it gets something. Where the page is not served, callers on this host get
// profiles, as those of a page without a token do.
func (a *access) refuse(r *http.Request) (code int, why string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return http.StatusMethodNotAllowed, errMethod.Error()
	}
	api, profile := strings.HasPrefix(r.URL.Path, "/api/"), strings.HasPrefix(r.URL.Path, profiles)
	if a.off != "" && !(profile && thishost.Loopback(thishost.Of(r.RemoteAddr))) {
		return http.StatusForbidden, a.off
	}
	proxy, strange := thishost.Signs(r, a.name)
	if !a.asks && proxy != "" {
		return http.StatusForbidden, fmt.Sprintf(behindProxy, proxy)
	}
	// A proxy that serves under a name of its own asks with the token.
	if (a.local || a.off != "") && proxy == "" && strange != "" {
		return http.StatusForbidden, fmt.Sprintf("this is not known as %.100q: ask for localhost, 127.0.0.1, [::1] or the name in RAYSYS_HTTP", strange)
	}
	if foreign(r, api || profile) {
		return http.StatusForbidden, errSite.Error()
	}
	// The files of the page say nothing of the cluster, and ask for the token.
	if (api || profile) && a.asks {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if got := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(got[:], a.sha256[:]) != 1 {
			return http.StatusUnauthorized, errToken.Error()
		}
	}
	return 0, ""
}

// profiles is where they are served.
const profiles = "/debug/pprof/"

// foreign reports whether a page of another origin asks. A link to the page, from wherever, is none.
func foreign(r *http.Request, data bool) bool {
	h := r.Header
	if origin := h.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || u.Host != r.Host {
			return true
		}
	}
	switch h.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return data || h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document"
}
