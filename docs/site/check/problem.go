package main

import (
	"cmp"
	"fmt"
)

// problem is one thing to mend.
type problem struct {
	file string // below the site or the repository
	what string
}

func problemf(file, format string, args ...any) problem {
	return problem{file: file, what: fmt.Sprintf(format, args...)}
}

// String is the problem as a line.
func (p problem) String() string { return p.file + ": " + p.what }

func (p problem) compare(other problem) int {
	return cmp.Or(cmp.Compare(p.file, other.file), cmp.Compare(p.what, other.what))
}
