// Package plugins owns nothing itself: its folders hold the sdk, the worker's end, and the
// built-in job types, and its tests run all of these together.
package plugins

//go:generate go run ./wiregen
