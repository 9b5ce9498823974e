package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

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
	for _, at := range []struct {
		text string
		to   *time.Time
	}{{view.Since, &view.Filter.Since}, {view.Until, &view.Filter.Until}} {
		if at.text == "" {
			continue
		}
		t, err := time.Parse("2006-01-02T15:04", at.text)
		if err != nil {
			view.Problem = fmt.Sprintf("%q is not a time: expected one as 2026-12-31T18:00, in UTC", at.text)
		}
		*at.to = t
	}
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

// nextPage is the address of the page after this one; "" at the end.
func nextPage(q url.Values, cursor string) string {
	if cursor == "" {
		return ""
	}
	q = maps.Clone(q)
	q.Set("cursor", cursor)
	return "?" + q.Encode()
}

// maxValue bounds what is shown of a field, in bytes.
const maxValue = 2000

// changesOf lists the fields in which two objects differ, by name. A value that is no object is one
// field without a name.
func changesOf(before, after json.RawMessage) []fieldChange {
	old, okOld := fieldsOf(before)
	now, okNow := fieldsOf(after)
	if !okOld || !okNow {
		if bytes.Equal(before, after) {
			return nil
		}
		return []fieldChange{{"", value(before), value(after)}}
	}
	names := maps.Clone(old)
	maps.Copy(names, now)
	var changes []fieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := value(old[name]), value(now[name]); a != b {
			changes = append(changes, fieldChange{name, a, b})
		}
	}
	return changes
}

// fieldsOf reads an object; there may be none.
func fieldsOf(data json.RawMessage) (map[string]json.RawMessage, bool) {
	fields := map[string]json.RawMessage{}
	if len(data) == 0 || string(data) == "null" {
		return fields, true
	}
	return fields, json.Unmarshal(data, &fields) == nil
}

// value is JSON for people: a text without quotes, all else as it is, cut where it is long.
func value(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	if len(text) > maxValue {
		text = strings.ToValidUTF8(text[:maxValue], "") + "…"
	}
	return text
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
