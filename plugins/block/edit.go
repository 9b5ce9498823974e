package block

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
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
	block := between(p, sdk.LineEnd(content))
	if first >= 0 {
		return strings.Join(slices.Replace(lines, first, last+1, block), ""), nil
	}
	return sdk.InsertText(content, p.After, p.Before, block)
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
func between(p Params, lineEnd string) string {
	begin, end := p.markers()
	var block strings.Builder
	block.WriteString(begin + lineEnd)
	for l := range strings.Lines(p.Content) {
		block.WriteString(strings.TrimRight(l, "\r\n") + lineEnd)
	}
	return block.String() + end + lineEnd
}

// find returns the indexes of the markers; -1 where the file has none.
func find(p Params, lines []string) (first, last int, err error) {
	begin, end := p.markers()
	begin, end = strings.TrimSpace(begin), strings.TrimSpace(end) // as the lines: a comment may be indented
	first, last = -1, -1
	for i, l := range lines {
		switch text := strings.TrimSpace(l); {
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
