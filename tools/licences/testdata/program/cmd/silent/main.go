// Command silent is a fixture.
package main

import (
	"fmt"

	"example.com/silent"
)

func main() { fmt.Println(silent.Name) }
