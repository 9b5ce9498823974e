package core

import (
	"fmt"
	"slices"
)

// Map returns f of each item of a list, in the order of the list. It never returns nil.
func Map[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, item := range list {
		out[i] = f(item)
	}
	return out
}

// Union returns the items of a, and behind them those of b that are not there yet.
func Union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, item := range b {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// Plural returns a number with its noun: "1 host", "2 hosts".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
