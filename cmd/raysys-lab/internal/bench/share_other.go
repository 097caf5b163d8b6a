//go:build !linux

package bench

import "errors"

var errNoSharing = errors.New("this system has no files in memory that another process can open")

func shareable([]byte) (string, func() error, error) { return "", nil, errNoSharing }

func mapFile(string, int) ([]byte, func() error, error) { return nil, nil, errNoSharing }
