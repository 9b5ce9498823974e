package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// frame is what the screen shows from a time on. Its rows are markup. A frame without rows is the end.
type frame struct {
	at   time.Duration
	rows []string
}

func equal(a, b []string) bool { return slices.Equal(a, b) }

const (
	cellWidth, cellHeight = 8.4, 18 // of 14px letters of the usual fonts
	margin, bar           = 16, 34  // around the text, and the height of the title bar
)

// style holds the colours: those of a dark page, and those of a light one.
const style = `
:root{--bg:#0d1117;--bar:#161b22;--line:#30363d;--fg:#e6edf3;--faint:#8b949e;--red:#ff7b72;--green:#56d364;--yellow:#e3b341;--cyan:#56d4dd}
@media(prefers-color-scheme:light){:root{--bg:#fff;--bar:#f6f8fa;--line:#d0d7de;--fg:#1f2328;--faint:#656d76;--red:#cf222e;--green:#1a7f37;--yellow:#7d4e00;--cyan:#0b6e77}}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--fg);white-space:pre}
.b{font-weight:700}.f{fill:var(--faint)}.r{fill:var(--red)}.g{fill:var(--green)}.y{fill:var(--yellow)}.c{fill:var(--cyan)}
`

// draw returns the picture: a strip of frames, of which one is seen at a time.
func draw(frames []frame, columns, rows int, title string) []byte {
	length, list := frames[len(frames)-1].at, frames[:len(frames)-1]
	width, height := int(float64(columns)*cellWidth)+2*margin, rows*cellHeight+bar+2*margin
	step := rows * cellHeight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`, width, height, width, height, escape(title))
	fmt.Fprintf(&b, "\n<style>%s@keyframes play{", style)
	for i, f := range list {
		fmt.Fprintf(&b, "%.3f%%{transform:translateY(%dpx)}", 100*f.at.Seconds()/length.Seconds(), -i*step)
	}
	last := (1 - len(list)) * step
	fmt.Fprintf(&b, "to{transform:translateY(%dpx)}}\n#strip{animation:play %.1fs step-end infinite}\n", last, length.Seconds())
	fmt.Fprintf(&b, "@media(prefers-reduced-motion:reduce){#strip{animation:none;transform:translateY(%dpx)}}\n</style>\n", last)
	body, defs := strip(list, step)
	fmt.Fprintf(&b, "<defs>%s</defs>\n", defs)
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%d" height="%d" rx="8" style="fill:var(--bg);stroke:var(--line)"/>`, width-1, height-1)
	fmt.Fprintf(&b, `<path d="M1 %dV9a8 8 0 0 1 8-8H%da8 8 0 0 1 8 8V%dz" style="fill:var(--bar)"/>`, bar, width-9, bar)
	for i, color := range []string{"red", "yellow", "green"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="5.5" style="fill:var(--%s)"/>`, 20+20*i, bar/2, color)
	}
	fmt.Fprintf(&b, "\n<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"><g id=\"strip\">\n%s</g></svg>\n</svg>\n", margin, bar+margin, width-2*margin, step, body)
	return b.Bytes()
}

// strip draws the frames below each other. A row that several frames have is written once.
func strip(list []frame, step int) (body, defs string) {
	var b, d strings.Builder
	names := map[string]string{}
	for i, f := range list {
		for y, row := range f.rows {
			if row == "" {
				continue
			}
			name, known := names[row]
			if !known {
				name = fmt.Sprintf("r%x", len(names))
				names[row] = name
				fmt.Fprintf(&d, "<text id=\"%s\">%s</text>\n", name, row)
			}
			fmt.Fprintf(&b, `<use href="#%s" y="%d"/>`, name, i*step+y*cellHeight+cellHeight-5)
		}
		b.WriteByte('\n')
	}
	return b.String(), d.String()
}

// rowMarkup returns the text of a row of the screen, a tspan for each part of one style. Each has its own
// place, so that a font of another width leaves columns where they are.
func rowMarkup(screen *vt.Emulator, y int) string {
	var b strings.Builder
	for x := 0; x < screen.Width(); {
		from, class, text := x, className(screen.CellAt(x, y)), ""
		for x < screen.Width() && (blank(screen.CellAt(x, y)) || className(screen.CellAt(x, y)) == class) {
			cell := screen.CellAt(x, y)
			if blank(cell) {
				text += " "
				x++
				continue
			}
			text += cell.Content
			x += max(cell.Width, 1)
		}
		left := strings.TrimLeft(text, " ")
		from += len(text) - len(left)
		text = strings.TrimRight(left, " ")
		if text == "" {
			continue
		}
		if class != "" {
			class = ` class="` + class + `"`
		}
		fmt.Fprintf(&b, `<tspan x="%g"%s>%s</tspan>`, float64(int(float64(from)*cellWidth*10))/10, class, escape(text))
	}
	return b.String()
}

func blank(cell *uv.Cell) bool { return cell == nil || strings.TrimSpace(cell.Content) == "" }

// className returns the classes of a cell's style: those that the command uses.
func className(cell *uv.Cell) string {
	if blank(cell) {
		return ""
	}
	var list []string
	switch cell.Style.Fg {
	case ansi.Red, ansi.BrightRed:
		list = append(list, "r")
	case ansi.Green, ansi.BrightGreen:
		list = append(list, "g")
	case ansi.Yellow, ansi.BrightYellow:
		list = append(list, "y")
	case ansi.Cyan, ansi.BrightCyan:
		list = append(list, "c")
	}
	if cell.Style.Attrs&uv.AttrBold != 0 {
		list = append(list, "b")
	}
	if cell.Style.Attrs&uv.AttrFaint != 0 {
		list = append(list, "f")
	}
	return strings.Join(list, " ")
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
