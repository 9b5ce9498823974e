package pictures

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Sizes of the map in pixels. A block is as wide as a telephone; wider screens have several side by
// side.
const (
	pitch      = 18 // of squares of hosts
	columns    = 18
	blockRows  = 12
	blockHosts = columns * blockRows
	tileWidth  = 108 // of tiles of hosts
	tileHeight = 24
	tileCols   = 3
	tileHosts  = 12 * tileCols // of a block
	tileName   = 13            // characters
	groupPitch = 40            // of squares of groups
	groupCols  = 8
	mapWidth   = 1180 // of the document
	mapMargin  = 12
	blockGap   = 14
)

// Block is one part of the map, drawn.
type Block struct {
	Markup        string // an svg element
	Width, Height int
}

// Blocks draws the hosts of a group as squares, in as many blocks as they need.
func (g *Group) Blocks(now time.Time) []Block {
	return g.inRows(columns, blockHosts, pitch, pitch, func(s *SVG, h *Host, x, y int) { s.host(h, x, y, now) })
}

// MaxTiles is how many hosts of one group have their names beside their letters.
const MaxTiles = 600

// Tiles draws the hosts of a group with their names, in as many blocks as they need.
func (g *Group) Tiles(now time.Time) []Block {
	return g.inRows(tileCols, tileHosts, tileWidth, tileHeight, func(s *SVG, h *Host, x, y int) { s.tile(h, x, y, now) })
}

// inRows draws each host in a place of its own, so many in a row and in a block.
func (g *Group) inRows(row, most, width, height int, draw func(s *SVG, h *Host, x, y int)) []Block {
	var blocks []Block
	for from := 0; from < len(g.Hosts); from += most {
		part := g.Hosts[from:min(from+most, len(g.Hosts))]
		s := &SVG{}
		for i := range part {
			draw(s, &part[i], i%row*width, i/row*height)
		}
		blocks = append(blocks, block(s, min(len(part), row)*width, (len(part)+row-1)/row*height, g.told()))
	}
	return blocks
}

// Block draws the groups of a customer, a square each.
func (c *Customer) Block() Block {
	s := &SVG{}
	for i := range c.Groups {
		s.group(&c.Groups[i], i%groupCols*groupPitch, i/groupCols*groupPitch)
	}
	return block(s, min(len(c.Groups), groupCols)*groupPitch, (len(c.Groups)+groupCols-1)/groupCols*groupPitch, Named(c.Name))
}

func block(inner *SVG, width, height int, label string) Block {
	s := &SVG{}
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" class="map" width="%d" height="%d" viewBox="0 0 %d %d" role="group" aria-label="%s">`, width, height, width, height, label)
	s.Raw(inner.String())
	s.Raw("</svg>")
	return Block{s.String(), width, height}
}

// link begins what a click on leads to; keyboards have the table.
func (s *SVG) link(to string, title string) (end string) { return s.open(to, false, title) }

// open begins a link, or a group where it leads nowhere. With keys, keyboards reach it.
func (s *SVG) open(to string, keys bool, title string) (end string) {
	end = "</a>\n"
	switch {
	case to == "":
		s.Raw("<g>")
		end = "</g>\n"
	case keys:
		s.Add(`<a href="%s">`, to)
	default:
		s.Add(`<a href="%s" tabindex="-1">`, to)
	}
	s.Add(`<title>%s</title>`, title)
	return end
}

func (s *SVG) host(h *Host, x, y int, now time.Time) {
	end := s.link(h.Link, h.told())
	s.square(h, x, y, pitch, pitch, now)
	s.letter(Letter(string(h.Outcome)), x+pitch/2, y+pitch/2+4, 11)
	s.Raw(end)
}

// tile is a host with its name, and a keyboard reaches it. The inner svg cuts wide characters.
func (s *SVG) tile(h *Host, x, y int, now time.Time) {
	end := s.open(h.Link, true, h.told())
	s.square(h, x, y, tileWidth, tileHeight, now)
	s.letter(Letter(string(h.Outcome)), x+11, y+tileHeight/2+4, 11)
	s.Add(`<svg x="%d" y="%d" width="%d" height="%d"><text x="0" y="%d" font-size="11">%s</text></svg>`, x+21, y, tileWidth-24, tileHeight, tileHeight/2+4, short(h.Name, tileName))
	s.Raw(end)
}

// square is as strong as the outcome of its host is new.
func (s *SVG) square(h *Host, x, y, width, height int, now time.Time) {
	fade := 1.0
	if h.Outcome != "" {
		fade = Fade(now.Sub(h.Ended))
	}
	s.Add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2" fill-opacity="%.2f"/>`, classOf(h.Outcome), x+1, y+1, width-2, height-2, fade)
}

// group draws a square whose height the outcomes share, the worst one at the bottom, with the
// letter of the worst one.
func (s *SVG) group(g *Group, x, y int) {
	const size = groupPitch - 4
	end := s.link(g.Link, g.told())
	counts := Counts(g.Hosts)
	bottom, left := y+2+size, size
	for i, c := range counts {
		height := min(max(c.Hosts*size/len(g.Hosts), 3), left)
		if i == len(counts)-1 {
			height = left
		}
		bottom, left = bottom-height, left-height
		s.Add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, classOf(c.Outcome), x+2, bottom, size, height)
	}
	s.letter(Letter(string(counts[0].Outcome)), x+groupPitch/2, y+groupPitch/2+6, 16)
	s.Raw(end)
}

func (s *SVG) letter(letter string, x, y, size int) {
	s.Add(`<text x="%d" y="%d" font-size="%d" text-anchor="middle">%s</text>`, x, y, size, letter)
}

// key explains the squares of an outcome, and returns where the next key begins.
func (s *SVG) key(o core.Outcome, letter, text string, x, y int) (next int) {
	s.Add(`<rect class="%s" x="%d" y="%d" width="16" height="16" rx="2"/>`, classOf(o), x, y-12)
	s.letter(letter, x+8, y, 11)
	s.Add(`<text x="%d" y="%d">%s</text>`, x+22, y, text)
	return x + 40 + 7*len(text)
}

func classOf(o core.Outcome) string {
	class := "m-" + string(o)
	if o == "" {
		class = "m-none"
	}
	if Bad(o) {
		class += " m-bad"
	}
	return class
}

// mapStyle is all that a document needs: it loads nothing, and follows the reader's colour scheme.
// Pages have the same in their style sheet.
const mapStyle = `
  svg{font:12px system-ui,sans-serif}
  .bg{fill:#fff}.text,.map text{fill:#1c2126}.dim{fill:#5a6570}
  .m-failed{fill:#f28b82}.m-lost{fill:#e68ab8}.m-unreachable,.m-rolled_back{fill:#f6c26b}.m-cancelled{fill:#e8d9b5}
  .m-changed{fill:#8fd3a7}.m-unchanged{fill:#cfd6dc}.m-skipped{fill:#e3e8ec}.m-none{fill:none;stroke:#c9d0d6}.m-bad{stroke:#b3261e;stroke-width:1.5}
  @media (prefers-color-scheme:dark){
  .bg{fill:#15181c}.text,.map text{fill:#e4e8ec}.dim{fill:#9aa5b0}
  .m-failed{fill:#9b2c25}.m-lost{fill:#8a2452}.m-unreachable,.m-rolled_back{fill:#7d5200}.m-cancelled{fill:#5f5233}
  .m-changed{fill:#1f6b3d}.m-unchanged{fill:#4a545e}.m-skipped{fill:#343c44}.m-none{stroke:#3a424a}.m-bad{stroke:#ff8a80}}
`

// FleetDocument draws the map of a fleet as one self-contained picture.
func FleetDocument(fleet []Customer, now time.Time) string {
	var all []Host
	for _, c := range fleet {
		for _, g := range c.Groups {
			all = append(all, g.Hosts...)
		}
	}
	d := &document{y: 58}
	for i := range fleet {
		c := &fleet[i]
		d.heading(fmt.Sprintf("%s: %d hosts", Named(c.Name), c.Hosts))
		if len(all) > MaxSquares {
			d.place("", []Block{c.Block()})
			continue
		}
		for j := range c.Groups {
			g := &c.Groups[j]
			d.place(fmt.Sprintf("%s (%d)", Named(g.Name), len(g.Hosts)), g.Blocks(now))
		}
	}
	d.below()
	height := d.y + 40
	s := &SVG{}
	s.Add(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`, mapWidth, height, mapWidth, height)
	s.Add(`<title>Fleet, %s</title>`, utc(now))
	s.Raw("<style>" + mapStyle + "</style>\n")
	s.Add(`<rect class="bg" width="%d" height="%d"/>`, mapWidth, height)
	s.Add(`<text class="text" x="%d" y="26" font-size="16" font-weight="600">Fleet: %d hosts, %s</text>`, mapMargin, len(all), utc(now))
	s.Raw(d.String())
	s.legend(all, height-16)
	s.Add(`</svg>`)
	return s.String()
}

// document places blocks from left to right, and below where they do not fit.
type document struct {
	SVG
	x, y, row int // row: height of what is in this row
}

func (d *document) below() {
	if d.row > 0 {
		d.y += d.row + blockGap
	}
	d.x, d.row = mapMargin, 0
}

func (d *document) heading(text string) {
	d.below()
	d.Add(`<text class="text" x="%d" y="%d" font-size="14" font-weight="600">%s</text>`, mapMargin, d.y+4, text)
	d.y += 16
}

func (d *document) place(title string, blocks []Block) {
	for i, b := range blocks {
		width := max(b.Width, 60)
		if d.x+width > mapWidth-mapMargin {
			d.below()
		}
		if i == 0 && title != "" {
			d.Add(`<text class="dim" x="%d" y="%d">%s</text>`, d.x, d.y+12, short(title, width/6))
		}
		d.Add(`<g transform="translate(%d %d)">`, d.x, d.y+18)
		d.Raw(b.Markup + "</g>\n")
		d.x, d.row = d.x+width+blockGap, max(d.row, b.Height+18)
	}
}

// short cuts a text to so many characters.
func short(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func (s *SVG) legend(hosts []Host, y int) {
	x := mapMargin
	s.Raw(`<g class="map">`)
	for _, c := range Counts(hosts) {
		text := fmt.Sprintf("%d %s", c.Hosts, c.Word())
		x = s.key(c.Outcome, Letter(string(c.Outcome)), text, x, y)
	}
	s.Raw("</g>\n")
	s.Add(`<text class="dim" x="%d" y="%d" text-anchor="end">colours fade after a day, a week and 30 days</text>`, mapWidth-mapMargin, y)
}
