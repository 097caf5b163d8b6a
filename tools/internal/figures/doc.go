// Package figures is what the tools that measure in turns share: medians, ratios, and where their tables go.
package figures
