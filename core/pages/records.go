package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// auditView is a part of the audit log.
type auditView struct {
	Filter       client.AuditFilter
	Since, Until string // as typed
	Problem      string // of what was typed
	Entries      []auditEntry
	Next         string
}

type auditEntry struct {
	api.Entry
	Changes []fieldChange
}

// fieldChange is a field of a thing before and after somebody changed it.
type fieldChange struct{ Field, Before, After string }

func (p *Pages) audit(w http.ResponseWriter, r *http.Request, v visit) {
	q := r.URL.Query()
	view := auditView{Filter: client.AuditFilter{Who: q.Get("who"), What: q.Get("what"), Object: q.Get("object")}, Since: q.Get("since"), Until: q.Get("until")}
	view.Filter.Since, view.Filter.Until, view.Problem = rangeTyped(view.Since, view.Until)
	if view.Problem != "" {
		p.show(w, http.StatusUnprocessableEntity, "audit", v, "Audit log", view)
		return
	}
	list, err := v.client.Audit(r.Context(), view.Filter, client.Page{Cursor: q.Get("cursor"), Limit: 100})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	for _, e := range list.Items {
		view.Entries = append(view.Entries, auditEntry{e, changesOf(e.Before, e.After)})
	}
	view.Next = nextPage(q, list.Next)
	p.show(w, http.StatusOK, "audit", v, "Audit log", view)
}

// rangeTyped reads the range that a person typed into a form, where "" is no bound.
func rangeTyped(from, to string) (since, until time.Time, problem string) {
	for _, one := range []struct {
		text string
		to   *time.Time
	}{{from, &since}, {to, &until}} {
		if one.text == "" {
			continue
		}
		at, err := time.Parse("2006-01-02T15:04", one.text) // as browsers send it
		if err != nil {
			problem = fmt.Sprintf("%q is not a time: expected one as 2026-12-31T18:00, in UTC", one.text)
		}
		*one.to = at
	}
	return since, until, problem
}

// Export is the address of all entries in the time of the view, in a format.
func (view auditView) Export(format string) string {
	q := url.Values{"format": {format}}
	for name, value := range map[string]string{"since": view.Since, "until": view.Until} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "/audit/export?" + q.Encode()
}

// exportTypes are the formats of an export.
var exportTypes = map[string]string{"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}

// exportAudit sends the audit log as a file. If it breaks off, so does the download, so that no
// reader takes a part for all.
func (p *Pages) exportAudit(w http.ResponseWriter, r *http.Request, v visit) {
	q := r.URL.Query()
	since, until, problem := rangeTyped(q.Get("since"), q.Get("until"))
	kind := exportTypes[q.Get("format")]
	if problem == "" && kind == "" {
		problem = fmt.Sprintf("format %q: expected csv or ndjson", q.Get("format"))
	}
	if problem != "" {
		p.show(w, http.StatusUnprocessableEntity, "problem", v, "Audit log", problem)
		return
	}
	out, err := v.client.Export(r.Context(), "audit", client.ExportFilter{Since: since, Until: until, Format: q.Get("format")})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	defer func() { _ = out.Close() }()
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="audit.`+q.Get("format")+`"`)
	if _, err := io.Copy(steadyWriter{w, http.NewResponseController(w)}, out); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// nextPage is the address of the page after this one; "" at the end.
func nextPage(q url.Values, cursor string) string {
	if cursor == "" {
		return ""
	}
	q = maps.Clone(q)
	q.Set("cursor", cursor)
	return "?" + q.Encode()
}

// Bounds of what is shown of a change: bytes of a field, fields, and levels of objects and lists
// that are shown field by field.
const (
	maxValue  = 2000
	maxFields = 200
	maxLevels = 6
)

// changesOf lists the fields in which two values differ, by name. Fields of objects within are rows
// of their own, as word.ticket. A value that is no object is one field without a name.
func changesOf(before, after json.RawMessage) []fieldChange {
	old, now := fieldsOf(before), fieldsOf(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	var changes []fieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := old[name], now[name]; a != b {
			changes = append(changes, fieldChange{name, a, b})
		}
	}
	if left := len(changes) - maxFields; left > 0 {
		changes = append(changes[:maxFields], fieldChange{"more", "", core.Plural(left, "further field")})
	}
	return changes
}

// fieldsOf reads a value into its fields as text; null has none.
func fieldsOf(data json.RawMessage) map[string]string {
	fields := map[string]string{}
	if len(data) == 0 {
		return fields
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a float64 would lose digits
	var value any
	if decoder.Decode(&value) != nil {
		value = string(data)
	}
	addFields(fields, "", value, 0)
	return fields
}

func addFields(fields map[string]string, name string, value any, level int) {
	within := func(key string) string {
		if name == "" {
			return key
		}
		return name + "." + key
	}
	switch v := value.(type) {
	case map[string]any:
		if level == maxLevels {
			break
		}
		for key, one := range v {
			addFields(fields, within(key), one, level+1)
		}
		return
	case []any:
		if level == maxLevels || !slices.ContainsFunc(v, isNested) {
			break
		}
		for i, one := range v {
			addFields(fields, within(strconv.Itoa(i+1)), one, level+1)
		}
		return
	}
	if text := fieldText(value); text != "" {
		fields[name] = text
	}
}

func isNested(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// fieldText is a value for people: lists with commas, texts without quotes, cut where it is long.
func fieldText(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
	case string:
		text = v
	case []any:
		if slices.ContainsFunc(v, isNested) {
			text = string(asJSON(v))
			break
		}
		all := make([]string, len(v))
		for i, one := range v {
			all[i] = fieldText(one)
		}
		text = strings.Join(all, ", ")
	case map[string]any:
		text = string(asJSON(v))
	default: // a number, true or false
		text = fmt.Sprint(v)
	}
	if len(text) > maxValue {
		text = strings.ToValidUTF8(text[:maxValue], "") + "…"
	}
	return text
}

// asJSON writes what was read from JSON.
func asJSON(v any) []byte {
	data, _ := json.Marshal(v) // it always can be
	return data
}

// notificationsView is the sent notifications, and the channels.
type notificationsView struct {
	Filter   client.NotificationFilter
	Items    []api.Notification
	Next     string
	Channels []api.Channel
	Problem  string // why channels are not shown
}

func (p *Pages) notifications(w http.ResponseWriter, r *http.Request, v visit) {
	q := r.URL.Query()
	view := notificationsView{Filter: client.NotificationFilter{State: q.Get("state"), Channel: q.Get("channel"), Run: q.Get("run")}}
	list, err := v.client.Notifications(r.Context(), view.Filter, client.Page{Cursor: q.Get("cursor"), Limit: 100})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	view.Items, view.Next = list.Items, nextPage(q, list.Next)
	if view.Channels, err = client.All(r.Context(), 1000, v.client.Channels); err != nil {
		view.Problem = err.Error()
	}
	p.show(w, http.StatusOK, "notifications", v, "Notifications", view)
}

func (p *Pages) retryNotification(w http.ResponseWriter, r *http.Request, v visit) {
	if _, err := v.client.RetryNotification(r.Context(), r.PathValue("id")); err != nil {
		p.problem(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/notifications", http.StatusSeeOther)
}
