// Command free is a fixture.
package main

import (
	"fmt"

	"example.com/free"
)

func main() { fmt.Println(free.Name) }
