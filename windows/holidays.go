package windows

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rickar/cal/v2"
	austria "github.com/rickar/cal/v2/at"
	"github.com/rickar/cal/v2/be"
	"github.com/rickar/cal/v2/ch"
	"github.com/rickar/cal/v2/de"
	"github.com/rickar/cal/v2/dk"
	"github.com/rickar/cal/v2/es"
	"github.com/rickar/cal/v2/fr"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/ie"
	"github.com/rickar/cal/v2/it"
	"github.com/rickar/cal/v2/nl"
	"github.com/rickar/cal/v2/no"
	"github.com/rickar/cal/v2/pl"
	"github.com/rickar/cal/v2/se"
	"github.com/rickar/cal/v2/us"
)

// Holidays are dates. The library makes them in time.Local unless set otherwise, where a midnight
// that does not exist would move a date.
func init() { cal.DefaultLoc = time.UTC }

// builtinHolidays are the public holidays of whole countries and of their parts, by ISO 3166 code.
func builtinHolidays(name string) ([]*cal.Holiday, bool) {
	list, ok := map[string][]*cal.Holiday{
		"AT": austria.Holidays, "BE": be.Holidays, "DK": dk.Holidays, "ES": es.Holidays, "FR": fr.Holidays, "GB": gb.Holidays,
		"IE": ie.Holidays, "IT": it.Holidays, "NL": nl.Holidays, "NO": no.Holidays, "PL": pl.Holidays, "SE": se.Holidays, "US": us.Holidays,
		"DE": de.Holidays, "DE-BW": de.HolidaysBW, "DE-BY": de.HolidaysBY, "DE-BE": de.HolidaysBE, "DE-BB": de.HolidaysBB,
		"DE-HB": de.HolidaysHB, "DE-HH": de.HolidaysHH, "DE-HE": de.HolidaysHE, "DE-MV": de.HolidaysMV, "DE-NI": de.HolidaysNI,
		"DE-NW": de.HolidaysNW, "DE-RP": de.HolidaysRP, "DE-SL": de.HolidaysSL, "DE-SN": de.HolidaysSN, "DE-ST": de.HolidaysST,
		"DE-SH": de.HolidaysSH, "DE-TH": de.HolidaysTH,
		"CH": ch.Holidays, "CH-ZH": ch.HolidaysZH, "CH-BE": ch.HolidaysBE, "CH-LU": ch.HolidaysLU, "CH-UR": ch.HolidaysUR,
		"CH-SZ": ch.HolidaysSZ, "CH-OW": ch.HolidaysOW, "CH-NW": ch.HolidaysNW, "CH-GL": ch.HolidaysGL, "CH-ZG": ch.HolidaysZG,
		"CH-FR": ch.HolidaysFR, "CH-SO": ch.HolidaysSO, "CH-BS": ch.HolidaysBS, "CH-BL": ch.HolidaysBL, "CH-SH": ch.HolidaysSH,
		"CH-AR": ch.HolidaysAR, "CH-AI": ch.HolidaysAI, "CH-SG": ch.HolidaysSG, "CH-GR": ch.HolidaysGR, "CH-AG": ch.HolidaysAG,
		"CH-TG": ch.HolidaysTG, "CH-VD": ch.HolidaysVD, "CH-TI": ch.HolidaysTI, "CH-VS": ch.HolidaysVS, "CH-NE": ch.HolidaysNE,
		"CH-GE": ch.HolidaysGE, "CH-JU": ch.HolidaysJU,
	}[name]
	return list, ok
}

func holidayHint(name string, own []string) string {
	if hint := didYouMean(name, own); hint != "" {
		return hint
	}
	return `give dates under "holidays:", or use a built-in calendar such as DE-HE, CH-ZH, AT, FR, GB or US`
}

// holidayDates lists a calendar's dates from first to last, sorted, with their names. Where a
// holiday is observed on another day, both count. ok is false for a calendar nobody knows.
func (d *Definitions) holidayDates(name string, first, last time.Time) (dates []time.Time, ok bool) {
	found := map[time.Time]bool{}
	if !d.collectHolidays(name, first, last, found, 0) {
		return nil, false
	}
	return slices.SortedFunc(maps.Keys(found), time.Time.Compare), true
}

func (d *Definitions) collectHolidays(name string, first, last time.Time, into map[time.Time]bool, depth int) bool {
	add := func(t time.Time) {
		if !t.IsZero() && !t.Before(first) && !t.After(last) {
			into[t] = true
		}
	}
	if own := d.Holidays[name]; own != nil {
		for _, t := range own.Dates {
			add(t)
		}
		for _, other := range own.Include {
			if depth > maxDepth || !d.collectHolidays(other, first, last, into, depth+1) {
				return false
			}
		}
		return true
	}
	list, ok := builtinHolidays(strings.ToUpper(name))
	for _, h := range list {
		for year := first.Year() - 1; year <= last.Year()+1; year++ { // observed days may fall into the next year
			actual, observed := h.Calc(year)
			add(dateOf(actual))
			add(dateOf(observed))
		}
	}
	return ok
}

func dateOf(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}
