// Command fixture calls what the database of the test calls vulnerable.
package main

import (
	"fmt"
	"net/textproto"
	"path"
)

func main() {
	fmt.Println(path.Clean("a/../b"), textproto.TrimString(" a "))
}
