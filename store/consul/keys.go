package consul

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Consul 1.21.6 and 1.22.0 refuse names at /v1/kv, though not in transactions: a name has letters, digits and , - _ . /
// alone, no "../", and does not end as a file does (.com, .sh, in any case). So each other byte, each comma, and a dot
// after a dot is written as a comma and two hexadecimal digits; a name that ends as a file does gets a comma at its end.
// Most names stay as they are. The bytes that a prefix is written as begin those of each key that it begins.

// fileEnds are the ends that Consul refuses.
var fileEnds = strings.Fields(`.js .css .html .htm .xml .json .txt .log .php .asp .jsp .cgi .pl .py .rb .sh .exe .dll .bat .cmd .com .scr
	.vbs .pdf .doc .docx .xls .xlsx .ppt .pptx .zip .rar .tar .gz .7z .bz2 .jpg .jpeg .png .gif .svg .ico .bmp .mp3 .mp4 .avi .mov .wmv
	.flv .swf .woff .woff2 .ttf .eot .otf`)

func endsAsFile(name string) bool {
	if !strings.Contains(name, ".") {
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(fileEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// plain reports whether a byte of a name stands for itself.
func plain(name string, i int) bool {
	c := name[i]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '/' ||
		c == '.' && (i == 0 || name[i-1] != '.')
}

// escape writes a name without its end: of a key or of a prefix.
func escape(name string) string {
	odd := 0
	for odd < len(name) && plain(name, odd) {
		odd++
	}
	if odd == len(name) {
		return name
	}
	b := []byte(name[:odd])
	for i := odd; i < len(name); i++ {
		if plain(name, i) {
			b = append(b, name[i])
		} else {
			b = fmt.Appendf(b, ",%02x", name[i])
		}
	}
	return string(b)
}

// escapeKey writes a key below the prefix.
func escapeKey(key string) string {
	key = escape(key)
	if endsAsFile(key) {
		key += ","
	}
	return key
}

// unescapeKey reads what escapeKey wrote. What it cannot have written is a key of an earlier version, as it stands there.
func unescapeKey(name string) string {
	before, rest, escaped := strings.Cut(name, ",")
	if !escaped {
		return name
	}
	key := []byte(before)
	for part := range strings.SplitSeq(rest, ",") {
		if part == "" { // the end of the name: elsewhere escapeKey, below, writes another one
			continue
		}
		c, err := hex.DecodeString(part[:min(2, len(part))])
		if err != nil {
			return name
		}
		key = append(append(key, c...), part[2:]...)
	}
	if escapeKey(string(key)) != name {
		return name
	}
	return string(key)
}

// escapePrefix writes a prefix of keys. Consul must not be asked for one that ends as a file does: then it is a shorter one, of
// which not all keys are meant.
func escapePrefix(prefix string) string {
	name := escape(prefix)
	for endsAsFile(name) {
		name = name[:len(name)-1]
	}
	return name
}
