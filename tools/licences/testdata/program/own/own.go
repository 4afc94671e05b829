// Package own is a fixture.
package own

// Name is its name.
const Name = "own"
