package thishost

import (
	"net"
	"net/http"
	"strings"
)

// Signs are what says that a request may be of another host, though its connection is of this one: the header by which
// a proxy says that it has passed the request on, and the Host that it was made to, which is neither a name of loopback
// nor own. "" where there is no such sign.
//
// A site elsewhere can have its own name lead to 127.0.0.1; then its pages are of the same site for the browser, and
// only Host tells.
func Signs(r *http.Request, own string) (proxy, strange string) {
	if host := Of(r.Host); !Loopback(host) && !strings.EqualFold(host, own) {
		strange = host
		if host == "" {
			strange = "(no host)"
		}
	}
	return proxied(r.Header), strange
}

// proxied is the header by which a proxy says that it has passed a request on, "" where there is none.
func proxied(h http.Header) string {
	for name := range h {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return name
		}
	}
	return ""
}

// Of is the host of HOST:PORT, or of HOST alone, as a request has it.
func Of(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.Trim(hostport, "[]")
}

// Loopback reports whether a host is the one that asks.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
