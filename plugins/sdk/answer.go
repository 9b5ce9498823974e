package sdk

import (
	"strconv"
	"strings"
)

// Answer is the output of a script on a host, in lines of a word and its value, as those of
// [DeadMan] are: "state armed". The zero value is empty. Safe for concurrent use.
type Answer struct {
	last map[string]string
	all  map[string]*strings.Builder
}

// ReadAnswer reads the output of a script. A line without a space is a word with the empty value.
func ReadAnswer(out string) Answer {
	a := Answer{last: map[string]string{}, all: map[string]*strings.Builder{}}
	for line := range strings.Lines(out) {
		word, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		a.last[word] = value
		if a.all[word] == nil {
			a.all[word] = &strings.Builder{}
		}
		_, _ = a.all[word].WriteString(value + "\n")
	}
	return a
}

// Has reports whether the answer contains the word.
func (a Answer) Has(word string) bool { _, ok := a.last[word]; return ok }

// Value is the last value of the word; "" if the answer does not contain it.
func (a Answer) Value(word string) string { return a.last[word] }

// Number is Value as a whole number; 0 where it is none.
func (a Answer) Number(word string) int { n, _ := strconv.Atoi(a.last[word]); return n }

// Text is all values of the word, each as a line with its newline: how a script sends a file.
func (a Answer) Text(word string) string {
	if b := a.all[word]; b != nil {
		return b.String()
	}
	return ""
}
