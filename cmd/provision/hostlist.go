package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// numberedName is a name taken apart at its last number: prefix, number, suffix.
type numberedName struct {
	prefix, suffix string
	digits         int // to how many the number is filled up with zeros; 0 is to none
	number         int
}

// series are names that differ in their number alone.
func (n numberedName) series() numberedName {
	n.number = 0
	return n
}

// maxDigits is how many digits of a name are taken for a number.
const maxDigits = 9

// foldNames is the shortest hostlist of the names that is still easy to read, such as
// node-[01-06,09],spare. `--node` takes it.
func foldNames(names []string) string {
	padded := map[numberedName]bool{} // series with a number that begins with a zero
	var numbered []numberedName
	var plain []string
	for _, name := range names {
		n, found := splitName(name)
		if !found {
			plain = append(plain, name)
			continue
		}
		numbered = append(numbered, n)
		if len(strconv.Itoa(n.number)) < n.digits {
			padded[n.series()] = true
		}
	}
	folded := map[numberedName][]int{}
	for _, n := range numbered {
		if !padded[n.series()] {
			n.digits = 0
		}
		folded[n.series()] = append(folded[n.series()], n.number)
	}
	for key, numbers := range folded {
		plain = append(plain, key.fold(numbers))
	}
	slices.Sort(plain)
	return strings.Join(slices.Compact(plain), ",")
}

// splitName takes a name apart at its last number.
func splitName(name string) (n numberedName, numbered bool) {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	end := strings.LastIndexFunc(name, isDigit) + 1
	start := strings.LastIndexFunc(name[:end], func(r rune) bool { return !isDigit(r) }) + 1
	if start == end || end-start > maxDigits || strings.ContainsAny(name, "[],*? ") {
		return n, false
	}
	number, err := strconv.Atoi(name[start:end])
	return numberedName{prefix: name[:start], suffix: name[end:], digits: end - start, number: number}, err == nil
}

func (n numberedName) fold(numbers []int) string {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 1 {
		return fmt.Sprintf("%s%0*d%s", n.prefix, n.digits, numbers[0], n.suffix)
	}
	var ranges []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		text := fmt.Sprintf("%0*d", n.digits, numbers[i])
		if last > i {
			text += fmt.Sprintf("-%0*d", n.digits, numbers[last])
		}
		ranges = append(ranges, text)
		i = last + 1
	}
	return n.prefix + "[" + strings.Join(ranges, ",") + "]" + n.suffix
}

// grouped puts what belongs together under one key, in the order of the names.
func grouped[T any, K comparable](all []T, key func(T) K, name func(T) string) []alike[K] {
	at := map[K]int{}
	var groups []alike[K]
	for _, one := range all {
		k := key(one)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k] = i
			groups = append(groups, alike[K]{key: k})
		}
		groups[i].names = append(groups[i].names, name(one))
	}
	slices.SortStableFunc(groups, func(a, b alike[K]) int { return cmp.Compare(a.names[0], b.names[0]) })
	return groups
}

// alike is what nodes have in common, and their names.
type alike[K any] struct {
	key   K
	names []string
}
