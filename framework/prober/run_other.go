//go:build !linux

package prober

import (
	"context"
	"errors"

	"github.com/spotdrill/spotdrill/framework/history"
)

var errLinux = errors.New("probing needs Linux: only its kernel records when an answer arrived, and takes many datagrams in one call")

// Run fails: see errLinux.
func Run(context.Context, Plan, *history.Clock, func(history.Query)) (Summary, error) {
	return Summary{}, errLinux
}

func checkOpenFiles(Plan) error { return errLinux }
