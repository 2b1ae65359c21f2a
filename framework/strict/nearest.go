package strict

import (
	"fmt"
	"strings"
)

// mostLetters is the longest word, in bytes, for which a near one is looked for.
const mostLetters = 64

// Among ends an error about a word that is none of the allowed ones: with the nearest of these, if one is
// near, and with all of them.
func Among(given string, allowed []string) string {
	all := "allowed: " + strings.Join(allowed, ", ")
	if hint := DidYouMean(given, allowed); hint != "" {
		return hint + " " + all
	}
	return "; " + all
}

// DidYouMean is the hint at the nearest word, or "" if none is near.
func DidYouMean(given string, words []string) string {
	if near := Nearest(given, words); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest is the word that is most like the given one, or "" if none is: one that begins with it, or that
// few changes of letters make of it. Upper and lower case are the same.
func Nearest(given string, words []string) (near string) {
	given = strings.ToLower(given)
	if given == "" || len(given) > mostLetters {
		return ""
	}
	least := min(len(given), 1+(len(given)+4)/5) // fewer changes than this
	for _, word := range words {
		lower := strings.ToLower(word)
		if n := changes(given, lower); n < least {
			near, least = word, n
		} else if near == "" && len(given) > 2 && strings.HasPrefix(lower, given) {
			near = word
		}
	}
	return near
}

// changes is how many letters must be added, left out, replaced, or swapped with the next one.
func changes(from, to string) int {
	before, last, row := []int(nil), make([]int, len(to)+1), make([]int, len(to)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(from); i++ {
		row[0] = i
		for j := 1; j <= len(to); j++ {
			replaced := last[j-1]
			if from[i-1] != to[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(to)+1)
	}
	return last[len(to)]
}
