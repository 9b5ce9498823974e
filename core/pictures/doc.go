// Package pictures draws the pictures of a service as SVG: the map of its fleet, the calendar, the
// shares of tenants. Web pages and the command line have the same ones.
//
// It draws plain values, and must not know where they come from.
package pictures
