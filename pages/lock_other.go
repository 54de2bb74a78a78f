//go:build !linux

package pages

import (
	"errors"
	"os"
)

func flock(*os.File) error { return errors.New("the post log needs Linux") }

func funlock(*os.File) {}
