// Package lint checks the architecture of this repository.
package lint
