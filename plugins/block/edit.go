package block

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const markerText = "BEGIN turnus "

// edit returns the content as it should be.
func edit(p Params, content string) (string, error) {
	lines := slices.Collect(strings.Lines(content))
	first, last, err := find(p, lines)
	if err != nil {
		return "", err
	}
	if p.State == "absent" {
		if first < 0 {
			return content, nil
		}
		return strings.Join(slices.Delete(lines, first, last+1), ""), nil
	}
	end := "\n"
	if len(lines) > 0 && strings.HasSuffix(lines[0], "\r\n") {
		end = "\r\n"
	}
	block := between(p, end)
	if first >= 0 {
		return strings.Join(slices.Replace(lines, first, last+1, block...), ""), nil
	}
	at, err := place(p, lines)
	if err != nil {
		return "", err
	}
	if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += end
	}
	return strings.Join(slices.Insert(lines, at, block...), ""), nil
}

// markers is the two lines around the block.
func (p *Params) markers() (begin, end string) {
	if p.Marker != "" {
		line := strings.TrimSpace(p.Marker)
		return strings.ReplaceAll(line, "{mark}", "BEGIN"), strings.ReplaceAll(line, "{mark}", "END")
	}
	return p.Comment + " " + markerText + p.Name, p.Comment + " END turnus " + p.Name
}

// between is the block with its markers.
func between(p Params, end string) []string {
	begin, last := p.markers()
	lines := []string{begin + end}
	for l := range strings.Lines(p.Content) {
		lines = append(lines, bare(l)+end)
	}
	return append(lines, last+end)
}

// find returns the indexes of the markers; -1 where the file has none.
func find(p Params, lines []string) (first, last int, err error) {
	begin, end := p.markers()
	first, last = -1, -1
	for i, l := range lines {
		switch text := strings.TrimSpace(bare(l)); {
		case text == begin && first >= 0, text == end && last >= 0:
			return 0, 0, fmt.Errorf("the marker %q is there twice, the second time in line %d: remove one of the blocks", text, i+1)
		case text == begin:
			first = i
		case text == end:
			last = i
		}
	}
	switch {
	case (first < 0) != (last < 0):
		return 0, 0, fmt.Errorf("only one marker is there, in line %d: expected both %q and %q, or none", max(first, last)+1, begin, end)
	case first > last:
		return 0, 0, fmt.Errorf("the marker %q in line %d stands before %q in line %d: put them in order", end, last+1, begin, first+1)
	}
	return first, last, nil
}

// place is the index that a new block gets.
func place(p Params, lines []string) (int, error) {
	name, expression, offset := "after", p.After, 1
	if p.Before != "" {
		name, expression, offset = "before", p.Before, 0
	}
	if expression == "" {
		return len(lines), nil
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return 0, errors.New("not an RE2 expression: " + expression)
	}
	at := -1
	for i, l := range lines {
		if !re.MatchString(bare(l)) {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("%s: several lines match %q, expected one: lines %d and %d", name, expression, at+1, i+1)
		}
		at = i
	}
	if at < 0 {
		return 0, fmt.Errorf("%s: no line matches %q, expected one", name, expression)
	}
	return at + offset, nil
}

// bare is a line without its end.
func bare(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}
