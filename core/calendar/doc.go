// Package calendar makes the calendar of a service or of window files: what may happen when, a lane
// for each customer and window set, as a pure function of plain values.
//
// It must not know where definitions, schedules and runs are kept, nor how a calendar is drawn.
package calendar
