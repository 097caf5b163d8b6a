package core

import (
	"slices"
	"strings"
)

// OfModel reports whether a device of model is one that asked, the option GPUModel, means: each word of asked is one of model,
// in any case. "H100" means an "NVIDIA H100 80GB HBM3", "A10" no "NVIDIA A100". An instance of a divided device (MIG) is meant
// only where asked has that word too.
func OfModel(model, asked string) bool {
	if asked == "" || asked == model {
		return true
	}
	has, wants := words(model), words(asked)
	if slices.Contains(has, "mig") && !slices.Contains(wants, "mig") {
		return false
	}
	return !slices.ContainsFunc(wants, func(w string) bool { return !slices.Contains(has, w) })
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(" -_/", r) })
}
