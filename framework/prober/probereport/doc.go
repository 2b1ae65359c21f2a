// Package probereport turns what a probe recorded into what people read: progress
// while it runs, a report with the outage windows at its end, and every query in a
// file.
package probereport
