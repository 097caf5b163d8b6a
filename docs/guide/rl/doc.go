// Package rl is the guide to reinforcement learning: its pages are Markdown, and each piece of Go in them stands in a test beside it.
package rl
