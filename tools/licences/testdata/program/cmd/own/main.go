// Command own is a fixture.
package main

import (
	"fmt"

	"example.com/own"
)

func main() { fmt.Println(own.Name) }
