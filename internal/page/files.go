package page

import (
	"bytes"
	"embed"
	"net/http"
	"path"
	"strings"
	"time"
)

// files are the page: modules as they are, which no step builds.
//
//go:embed files
var files embed.FS

// types are those of the files: what the host says of an extension is not always so.
var types = map[string]string{".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

// file serves the page's files. They say nothing of the cluster.
func file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	b, err := files.ReadFile("files/" + name)
	kind := types[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}
