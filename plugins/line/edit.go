package line

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
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
	return sdk.InsertText(content, p.After, p.Before, p.Line+sdk.LineEnd(content))
}

// matching returns the indexes of the lines that match, or that are the line.
func matching(p Params, lines []string) ([]int, error) {
	is := func(line string) bool { return line == p.Line }
	if p.Match != "" {
		re, err := regexp.Compile(p.Match)
		if err != nil {
			return nil, err
		}
		is = re.MatchString
	}
	var found []int
	for i, l := range lines {
		if is(bare(l)) {
			found = append(found, i)
		}
	}
	return found, nil
}

// bare is a line without its end.
func bare(line string) string {
	return strings.TrimRight(line, "\r\n")
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
