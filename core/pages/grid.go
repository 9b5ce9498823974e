package pages

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// gridRows is how many rows of the grid a page has without JavaScript.
const gridRows = 100

// gridView is the rows of a run's grid that the address of the page chooses, the worst first.
type gridView struct {
	Steps   []api.GridStep
	Rows    []gridRow
	Find    string // part of a host's name
	Show    string // bad, open, or an outcome; "" is all
	Group   string // id of a group of results
	From    int    // rows before these
	Total   int    // rows that match
	Next    string // address of the next rows; "" at the end
	LeftOut int
}

// Left returns how many hosts are not in the grid, as a sentence behind another one; "" for none.
func (v gridView) Left() string {
	switch v.LeftOut {
	case 0:
		return ""
	case 1:
		return " 1 host more is not in the grid."
	}
	return fmt.Sprintf(" %d hosts more are not in the grid.", v.LeftOut)
}

type gridRow struct {
	api.GridHost
	Cells template.HTML // of the outcome, then of each step
}

// gridCells are the cells of the table by their letters. Other letters have none.
var gridCells = func() (cells [128]string) {
	for _, letter := range "C=SFNBLX." {
		cells[letter] = `<td class="` + cellClass(byte(letter)) + `">` + string(letter) + `</td>`
	}
	return cells
}()

// cellClass is the class of a letter in the style sheet.
func cellClass(letter byte) string {
	switch letter {
	case '=':
		return "c-same"
	case '.':
		return "c-none"
	}
	return "c-" + string(rune(letter))
}

// cellsOf draws the cells of a row.
func cellsOf(h *api.GridHost, steps int) template.HTML {
	var b strings.Builder
	b.WriteString(gridCells[h.Outcome.Letter()&127])
	for i := range steps {
		letter := byte('.')
		if i < len(h.Cells) && gridCells[h.Cells[i]&127] != "" {
			letter = h.Cells[i]
		}
		b.WriteString(gridCells[letter&127])
	}
	return template.HTML(b.String()) //nolint:gosec // cells are constants
}

// Shown are the choices of the filter, by what their address has.
func (gridView) Shown() [][2]string {
	choices := [][2]string{{"", "all"}, {"bad", "bad"}, {"open", "without an outcome"}}
	for _, o := range core.Outcomes() {
		choices = append(choices, [2]string{string(o), pictures.Count{Outcome: o}.Word()})
	}
	return choices
}

func gridOf(g api.Grid, q url.Values) gridView {
	view := gridView{Steps: g.Steps, Find: q.Get("find"), Show: q.Get("show"), Group: q.Get("group"), LeftOut: g.LeftOut}
	rows := slices.DeleteFunc(g.Items, func(h api.GridHost) bool { return !view.shows(&h) })
	pictures.SortGrid(rows)
	view.Total = len(rows)
	if from, err := strconv.Atoi(q.Get("from")); err == nil {
		view.From = min(max(from, 0), len(rows))
	}
	to := min(view.From+gridRows, len(rows))
	for _, h := range rows[view.From:to] {
		view.Rows = append(view.Rows, gridRow{h, cellsOf(&h, len(g.Steps))})
	}
	if to < len(rows) {
		q = url.Values{"from": {strconv.Itoa(to)}}
		for key, value := range map[string]string{"find": view.Find, "show": view.Show, "group": view.Group} {
			if value != "" {
				q.Set(key, value)
			}
		}
		view.Next = "?" + q.Encode() + "#grid"
	}
	return view
}

func (v *gridView) shows(h *api.GridHost) bool {
	switch {
	case v.Find != "" && !strings.Contains(strings.ToLower(h.Host), strings.ToLower(v.Find)), v.Group != "" && h.Group != v.Group:
		return false
	case v.Show == "bad":
		return h.Outcome != "" && pictures.Bad(h.Outcome)
	case v.Show == "open":
		return h.Outcome == ""
	}
	return v.Show == "" || v.Show == string(h.Outcome)
}

// gridData is the whole grid for the script of the page, by columns: names of hosts by index, a
// letter of outcome each, and letters of steps. A group is the place of its id.
func (p *Pages) gridData(w http.ResponseWriter, r *http.Request, v visit) {
	grid, err := v.client.WholeGrid(r.Context(), r.PathValue("run"))
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	var outcomes strings.Builder
	data := struct {
		Steps    []string `json:"steps"`
		Hosts    []string `json:"hosts"`
		Outcomes string   `json:"outcomes"`
		Cells    []string `json:"cells"`
		Groups   []string `json:"groups"`
		Group    []int    `json:"group"`
	}{Steps: []string{}, Hosts: make([]string, len(grid.Items)), Cells: make([]string, len(grid.Items)), Groups: []string{}, Group: make([]int, len(grid.Items))}
	for _, s := range grid.Steps {
		data.Steps = append(data.Steps, s.Name)
	}
	at := map[string]int{}
	for i := range grid.Items {
		h := &grid.Items[i]
		data.Hosts[i], data.Cells[i] = h.Host, h.Cells
		outcomes.WriteByte(h.Outcome.Letter())
		k, known := at[h.Group]
		if !known {
			k = len(data.Groups)
			at[h.Group] = k
			data.Groups = append(data.Groups, h.Group)
		}
		data.Group[i] = k
	}
	data.Outcomes = outcomes.String()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(data)
}
