package line

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// edit returns the content as it should be.
func edit(p Params, content string) (string, error) {
	lines := slices.Collect(strings.Lines(content))
	found, err := matching(p, lines)
	if err != nil {
		return "", err
	}
	if p.State == "absent" {
		for _, i := range slices.Backward(found) {
			lines = slices.Delete(lines, i, i+1)
		}
		return strings.Join(lines, ""), nil
	}
	if len(found) > 1 && p.Match != "" {
		return "", fmt.Errorf("match: %d lines match %q, expected one at most: lines %s", len(found), p.Match, numbers(found))
	}
	if len(found) > 0 {
		i := found[0]
		lines[i] = p.Line + lines[i][len(bare(lines[i])):]
		return strings.Join(lines, ""), nil
	}
	at, err := place(p, lines)
	if err != nil {
		return "", err
	}
	end := "\n"
	if len(lines) > 0 && strings.HasSuffix(lines[0], "\r\n") {
		end = "\r\n"
	}
	if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += end
	}
	return strings.Join(slices.Insert(lines, at, p.Line+end), ""), nil
}

// matching is the indexes of the lines that are meant.
func matching(p Params, lines []string) ([]int, error) {
	if p.Match != "" {
		return where(p.Match, lines)
	}
	var found []int
	for i, l := range lines {
		if bare(l) == p.Line {
			found = append(found, i)
		}
	}
	return found, nil
}

// place is the index that a new line gets.
func place(p Params, lines []string) (int, error) {
	name, expression, offset := "after", p.After, 1
	if p.Before != "" {
		name, expression, offset = "before", p.Before, 0
	}
	if expression == "" {
		return len(lines), nil
	}
	found, err := where(expression, lines)
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, fmt.Errorf("%s: no line matches %q, expected one", name, expression)
	case len(found) > 1:
		return 0, fmt.Errorf("%s: %d lines match %q, expected one: lines %s", name, len(found), expression, numbers(found))
	}
	return found[0] + offset, nil
}

func where(expression string, lines []string) ([]int, error) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	var found []int
	for i, l := range lines {
		if re.MatchString(bare(l)) {
			found = append(found, i)
		}
	}
	return found, nil
}

// bare is a line without its end.
func bare(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

// numbers is the first lines of a list as a person counts them.
func numbers(found []int) string {
	var text []string
	for _, i := range found[:min(len(found), 5)] {
		text = append(text, fmt.Sprint(i+1))
	}
	if len(found) > 5 {
		text = append(text, "…")
	}
	return strings.Join(text, ", ")
}
