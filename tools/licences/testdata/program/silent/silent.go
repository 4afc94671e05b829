// Package silent is a fixture.
package silent

// Name is its name.
const Name = "silent"
