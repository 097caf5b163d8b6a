// Package guide has no code: its tests run what the pages of the guide show.
package guide
