// Command copyleft is a fixture.
package main

import (
	"fmt"

	"example.com/copyleft"
)

func main() { fmt.Println(copyleft.Name) }
