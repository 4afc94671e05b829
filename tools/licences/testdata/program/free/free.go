// Package free is a fixture.
package free

// Name is its name.
const Name = "free"
