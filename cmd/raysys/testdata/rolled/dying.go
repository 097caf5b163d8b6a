//go:build dying

package main

import "os"

func init() { os.Exit(7) }
