// Package copyleft is a fixture.
package copyleft

// Name is its name.
const Name = "copyleft"
